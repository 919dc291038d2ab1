// Pieces of messages, one file for each family. Only message*.cpp use it.
#pragma once

#include <string>
#include <string_view>

#include "finding/message.h"

namespace assay {

// "reads", "writes", "atomically updates".
std::string_view verb(evidence::AccessKind access);
std::string_view undefined_text(evidence::Undefined undefined);
std::string triple(const evidence::Index3& index);  // "(0,1,2)"
std::string text_of(const evidence::SharedArray& array);

// What the evidence says. `kind` is the kind that was seen, before anything was attributed to a cause.
std::string access_text(Kind kind, const evidence::Access& evidence);
std::string race_text(const evidence::Race& evidence);
std::string synchronisation_text(Kind kind, const evidence::Synchronisation& evidence);
std::string launch_text(Kind kind, const evidence::Launch& evidence);
std::string process_text(Kind kind, const evidence::Process& evidence);
std::string numeric_text(const evidence::Numeric& evidence);
std::string training_text(Kind kind, const evidence::Training& evidence);

}  // namespace assay
