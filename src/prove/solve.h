// The solver: Z3, in a process of its own that can be killed.
//
//   Solver solver;
//   Answer answer = solver.ask({.smt = text, .seconds = 2});
//
// A question is SMT-LIB text, so that what was asked can be written to a file and asked of another solver.
// Z3's own time limit is not reliable: a process that does not answer in time is killed, and the next
// question starts another. The same question asked twice is answered from memory.
//
// All limits of the prover are processor time, so that what is proved does not depend on what else the
// machine does, unless it leaves the prover less than an eighth of a core.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "prove/term.h"

namespace assay::prove {

struct Question {
  std::string smt;         // declarations and assertions; no check-sat
  double seconds = 5;      // of processor time
  bool nonlinear = false;  // products are products, not atoms: for counterexamples
};

struct Answer {
  enum class Kind : uint8_t { Unsatisfiable, Satisfiable, Unknown } kind = Kind::Unknown;
  std::map<std::string, Int> model;  // of Satisfiable, by declared name; numbers beyond 120 bits are left out
};

// Processor time that this process and its solvers have used, in seconds; an eighth of the elapsed time at least, so that
// every limit is reached in the end.
double work_seconds();

class Solver {
 public:
  Solver();
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  Answer ask(const Question& question);
  // Called with every question that turns out to have no model, once: what proofs rest on.
  void on_unsatisfiable(std::function<void(const Question&)> use) { use_unsatisfiable_ = std::move(use); }
  double seconds() const { return seconds_; }  // spent so far
  int questions() const { return questions_; }

 private:
  struct Process;
  std::unique_ptr<Process> process_;
  std::function<void(const Question&)> use_unsatisfiable_;
  std::unordered_map<std::string, Answer> known_;
  std::unordered_map<std::string, double> undecided_;  // with how many seconds it was tried
  double seconds_ = 0;
  int questions_ = 0;
};

}  // namespace assay::prove
