// Proofs about a kernel for every shape that its contract promises, from its PTX.
//
// Example:
//
//     Proof proof = prove(contract, {.seconds = 60});
//     std::string screen = terminal(proof, {});
//     if (proof.verdict == Status::Unknown) use(proof.obligations.front().reason);
//
// One direction, one file each:
//
//   relation.h    the host code is run against a recording device: which launches, as functions of the dims
//   execute.h     the kernel is executed once, symbolically: every access, with its address and its path
//   lower.h       terms become integer polynomials, wraps included; claims.cpp has what holds of loops
//   lemmas.h      facts about products for the solver
//   obligation.h  the questions, one file per obligation
//   solve.h       Z3 in a process of its own
//   witness.h     a counterexample becomes a trial, and counts only if the virtual GPU shows it
//
// What is proved is proved under the launch relation and the assumptions that the proof lists. What is not
// modelled is unknown, never assumed away.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "contract/contract.h"
#include "finding/json.h"
#include "prove/obligation.h"
#include "prove/relation.h"
#include "report/report.h"

namespace assay::prove {

struct Proof;

struct Options {
  double seconds = 60;            // of processor time, for all questions together
  std::string dump;               // folder for the proved questions, as SMT-LIB; empty: none
  std::string cache;              // of builds; empty: the user's
  std::vector<std::string> only;  // obligations by name; empty: all
  // Elapsed seconds in which replays of counterexamples may begin, all together. Chosen: five obligations' worth.
  double replay_seconds = 60;
  double recording_seconds = RelationOptions{}.seconds;
  std::function<void(const std::string&)> progress;
  std::function<void(const Proof&)> decided;  // called whenever an obligation is decided, with what there is
};

struct LaunchStatement {
  std::string kernel;
  std::string relation;  // one line
};

struct Proof {
  std::string contract, title;
  Status verdict = Status::Unknown;
  std::vector<std::string> shapes;  // "T from 1 to 65536"
  std::vector<LaunchStatement> launches;
  bool all_shapes_recorded = false;
  size_t recorded = 0;
  std::vector<std::string> assumptions;
  std::vector<Obligation> obligations;
  std::vector<Finding> findings;  // of refuted ones, as the virtual GPU reported them, made small
  Json files = Json::array();     // of a refutation: the contract and the sources, for `assay replay`
  Json relation = Json::array();  // the launch relation, for programs
  bool finished = false;
  std::vector<std::string> gaps;        // counterexamples that the virtual GPU did not show
  std::vector<std::string> deviations;  // what replays launched otherwise than the relation says: it is void
  double seconds = 0;

  bool contract_wrong = false;  // exit status 2; `problem` says why
  std::string problem;
};

// Why proofs say nothing about a kernel with such tensors. Empty: they do.
std::string unknown_memory(const contract::Contract& contract);

Proof prove(const contract::Contract& contract, const Options& options);

std::string terminal(const Proof& proof, const report::TerminalOptions& options);
Json to_json(const Proof& proof);
// For the HTML page, which shows the proof line by line.
report::Report to_report(const contract::Contract& contract, const Proof& proof);

}  // namespace assay::prove
