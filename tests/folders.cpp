#include "folders.h"

extern const char* const kSourceFolder = ASSAY_SOURCE_DIR;
extern const char* const kBinaryFolder = ASSAY_BINARY_DIR;
