// The worker as a program of its own, for subjects that are libraries or PTX.
#include "subject/worker/worker.h"

int main() {
  return assay::worker::run(nullptr);
}
