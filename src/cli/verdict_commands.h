// The commands that end in a verdict, and those that help write a contract. Each takes the arguments after
// its own name and returns the exit status: 0 pass, 1 fail, 2 the command line or the contract is wrong,
// 3 inconclusive.
#pragma once

#include <string>
#include <vector>

namespace assay::cli {

int check_command(std::vector<std::string> args);
int certify_command(std::vector<std::string> args);
int verify_command(std::vector<std::string> args);
int doctor_command(std::vector<std::string> args);
int compare_devices_command(std::vector<std::string> args);
int corpus_command(std::vector<std::string> args);
int judge_command(std::vector<std::string> args);
int lint_command(std::vector<std::string> args);
int prove_command(std::vector<std::string> args);
int train_command(std::vector<std::string> args);
int explain_command(std::vector<std::string> args);
int replay_command(std::vector<std::string> args);
int shim_command(std::vector<std::string> args);
int fleet_command(std::vector<std::string> args);
int formula_command(std::vector<std::string> args);
int init_command(std::vector<std::string> args);

}  // namespace assay::cli
