// Commands about the virtual GPU itself. Each takes the arguments after its own name and returns
// the exit status.
#pragma once

#include <string>
#include <vector>

namespace assay::cli {

int run_command(std::vector<std::string> args);
int events_command(std::vector<std::string> args);
int isa_command(std::vector<std::string> args);

}  // namespace assay::cli
