// Runs trials in a worker process.
//
// The judge starts a worker (worker_process.h), writes the inputs of a trial into the memory that both map, sends a
// request (protocol/messages.h) and waits for the reply, reading the device's events meanwhile. It decodes every message
// with all checks, and takes a reply or event that cannot be the worker's own as a crash of the subject. After any
// failure the worker is killed, and the next trial starts a new one.
#include "subject/runner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "protocol/protocol.h"
#include "subject/images.h"
#include "subject/interpreter.h"
#include "subject/worker_process.h"
#include "trial/giant.h"

namespace assay::subject {

namespace {

constexpr int kEarlierCalls = 64;  // before the one that is judged, in a trial of many calls
// Of a trial under load. Chosen: a call of a small kernel takes 0.1 to 0.2 ms with what runs beside it.
constexpr int kLoadRepeats = 400;
constexpr double kLoadSeconds = 0.5;
constexpr double kSettleSeconds =
    5;  // for a repetition to end, and the worker to say what came of all. Chosen

// A share of the GPU's memory, among the processes of this user: shares are files that are locked.
class GpuTurn {
 public:
  static constexpr int kShares = 8;
  static constexpr int64_t kShareBytes = int64_t{16} << 30;  // so that most giant trials need one or two

  explicit GpuTurn(int64_t bytes) {
    constexpr int kMost = 5000;  // milliseconds; then it is tried all the same
    const int wanted =
        static_cast<int>(std::clamp<int64_t>((bytes + kShareBytes - 1) / kShareBytes, 1, kShares));
    for (int waited = 0; waited < kMost && !interrupted() && !take(wanted); waited += kPollInterval)
      poll(nullptr, 0, kPollInterval);
  }
  ~GpuTurn() { let_go(); }
  GpuTurn(const GpuTurn&) = delete;
  GpuTurn& operator=(const GpuTurn&) = delete;

 private:
  // All of them or none: two that wait for each other would wait for ever.
  bool take(int wanted) {
    for (int i = 0; i < kShares && static_cast<int>(files_.size()) < wanted; ++i) {
      const std::string path = fmt::format("{}/assay-gpu-{}.{}.lock", temporary_place(), getuid(), i);
      const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      if (file < 0) return true;  // checks cannot take turns here
      if (flock(file, LOCK_EX | LOCK_NB) == 0)
        files_.push_back(file);
      else
        close(file);
    }
    if (static_cast<int>(files_.size()) == wanted) return true;
    let_go();
    return false;
  }
  void let_go() {
    for (const int file : files_) close(file);
    files_.clear();
  }

  std::vector<int> files_;
};

int64_t bytes_of(const MemoryFileLayout& layout) {
  int64_t bytes = 0;
  for (const CallPlan& call : layout.calls)
    for (const protocol::BufferRequest& buffer : call.request.buffers) bytes += buffer.bytes;
  return bytes;
}

}  // namespace

struct Runner::Impl {
  const contract::Contract& contract;
  const Subject& subject;
  WorkerProcess worker;
  std::optional<Answer> prepared;  // what came of starting a worker ahead of its first trial
  int64_t calls = 0;
  uint64_t request_id = 0;  // of the last request: no subject can guess it
  double sample_seconds = 1;
  uint64_t sample_blocks = kSampledBlocks;
  std::vector<uint64_t> wanted_blocks;
  bool launched = false;  // the worker gets ready, and has not said so yet
  bool goes_on = false;   // as the next requests say
  // What the worker repeats until the next request; none: nothing.
  std::optional<trial::Trial> repeated;
  std::map<uint64_t, trial::Trial> asked;  // of this process, by request: it repeats one of them
  bool is_worn_out = false;                // the next trial needs a new process
  bool lost_going_on = false;  // the worker ended while it repeated, when the next request had come
  // What came of repeating that no observation has told yet.
  struct GoneOn {
    protocol::WorkerTime time;
    int repeats = 0;
    std::optional<trial::Trial> shaken;
  } gone_on;

  Impl(const contract::Contract& c, const Subject& s, RunnerOptions o)
      : contract(c), subject(s), worker(c, s, std::move(o)) {}

  bool is_virtual() const { return worker.options().device == Device::Virtual; }

  void stop() {
    worker.stop();
    calls = 0;
    launched = is_worn_out = false;
    repeated.reset();
    asked.clear();
    prepared.reset();
  }

  void take_events(Observation& observation) {
    EventPipe& events = worker.events();
    events.read();
    observation.events = events.take_events();
    if (!is_virtual()) return;  // launches are not seen
    observation.recorded = events.take_recorded(observation.recorded_left_out);
    observation.kernels = events.take_kernels();
    observation.last_launch = events.take_last_launch();
    observation.code = events.take_code();
    events.take_error();
  }

  protocol::Request request_for(const trial::Trial& trial, const MemoryFileLayout& layout) {
    if (getrandom(&request_id, sizeof request_id, 0) < 0) ++request_id;
    const trial::Condition& condition = trial.condition;
    protocol::Request request{.id = request_id,
                              .memory_bytes = worker.memory_bytes(),
                              .seed = condition.schedule,
                              .ordered = condition.ordered,
                              .others_late = condition.others_late,
                              .moved = condition.moved,
                              .guard_begin = trial.seed % 2 == 1,
                              .cycles = condition.cycles,
                              .shift = condition.shift,
                              .host_poison = condition.host_poison,
                              .new_content = trial::pattern(condition.poison),
                              .earlier_calls = condition.looped ? kEarlierCalls : 0,
                              .calls = {}};
    request.goes_on = !is_virtual() && goes_on;
    if (!is_virtual() && !trial.sampled && condition.loaded)
      request.load = protocol::LoadRequest{.seed = trial.seed,
                                           .repeats = kLoadRepeats,
                                           .seconds = kLoadSeconds,
                                           .graph = !condition.fresh && !condition.perturbed};
    if (trial.sampled)
      request.sample = protocol::SampleRequest{.seed = trial.seed,
                                               .blocks = sample_blocks,
                                               .seconds = sample_seconds,
                                               .shares = trial::telling_shares(contract, trial.shape),
                                               .wanted = wanted_blocks};
    for (const CallPlan& plan : layout.calls) request.calls.push_back(plan.request);
    if (request.goes_on) asked[request.id] = trial;
    return request;
  }

  // One reply per request, with the request's number, and the channel of the device's events must still be
  // open. Otherwise the subject has written to the judge itself.
  Answer read_reply(const std::string& line, protocol::Reply& reply) {
    auto decoded = protocol::decode_reply(line);
    if (!decoded) return worker.give_up(CallOutcome::Crashed, decoded.error().text());
    reply = std::move(*decoded);
    worker.events().read();
    if (reply.id != request_id || worker.has_said_more())
      return worker.give_up(CallOutcome::Crashed, "the subject sent its own reply to the judge");
    if (worker.events().has_ended())
      return worker.give_up(CallOutcome::Crashed, "the subject closed the channel of the device's events");
    return {};
  }

  // A worker on this machine; false: there is none, and the observation says why.
  bool has_worker(const Machine& wanted, Observation& observation) {
    if (interrupted()) {
      observation.outcome = CallOutcome::Unavailable;
      observation.error = kInterrupted;
      return false;
    }
    if (repeated && worker.has_ended()) {
      gone_on.shaken = repeated;
      stop();
    }
    if (worker.is_running() && !launched && wanted == worker.machine()) return true;
    const bool is_prepared = prepared && wanted == worker.machine();
    const bool is_launched = std::exchange(launched, false);
    if (!is_prepared && !is_launched) stop();
    worker.set_machine(wanted);
    const Answer started = is_launched ? worker.await_ready() : is_prepared ? *prepared : worker.start();
    prepared.reset();
    if (started.outcome == CallOutcome::Ended) return true;
    observation.outcome = started.outcome;
    observation.error = started.error;
    take_events(observation);
    stop();
    return false;
  }

  // Makes the calls; false: they did not end, and the observation says why.
  bool exchange(const protocol::Request& request, protocol::Reply& reply, Observation& observation) {
    Answer answer = worker.send(encode(request)) ? worker.receive(worker.options().timeout) : worker.died();
    observation.limited_seconds = answer.seconds;
    if (answer.outcome == CallOutcome::Ended) answer = read_reply(answer.line, reply);
    take_events(observation);
    if (worker.events().is_forged() && answer.outcome == CallOutcome::Ended)
      answer =
          worker.give_up(CallOutcome::Crashed, "the subject wrote into the channel of the device's events");
    observation.outcome = answer.outcome;
    observation.error = answer.error;
    lost_going_on = repeated && answer.exit_status == protocol::kDeviceLost;
    if (lost_going_on) gone_on.shaken = repeated;
    if (answer.outcome == CallOutcome::Ended) {
      calls += static_cast<int64_t>(request.calls.size());
      note_repeated(reply);
      return true;
    }
    const std::string said = interrupted() ? "" : worker.output_tail();
    if (!said.empty()) observation.error += "; it said: " + said;
    stop();
    return false;
  }

  // What a reply says of the repetitions before it, and of those after it.
  void note_repeated(const protocol::Reply& reply) {
    if (reply.gone_on) {
      gone_on.repeats += reply.gone_on->repeats;
      if (reply.gone_on->differs) gone_on.shaken = repeated;
    }
    const auto next = asked.find(reply.goes_on_with);
    repeated = next == asked.end() ? std::nullopt : std::optional(next->second);
  }

  // The worker stops repeating, and says what came of it.
  void settle() {
    if (!repeated) return;
    protocol::Request nothing{.memory_bytes = worker.memory_bytes(), .calls = {}};
    if (getrandom(&request_id, sizeof request_id, 0) < 0) ++request_id;
    nothing.id = request_id;
    protocol::Reply reply;
    Answer answer = worker.send(encode(nothing)) ? worker.receive(kSettleSeconds) : worker.died();
    if (answer.outcome == CallOutcome::Ended) answer = read_reply(answer.line, reply);
    if (answer.outcome == CallOutcome::Ended) {
      note_repeated(reply);
      gone_on.time += reply.time;
      return;
    }
    if (answer.exit_status == protocol::kDeviceLost) gone_on.shaken = repeated;
    stop();
  }

  // Room for the images of a call; false: there is none, and the observation says so.
  bool has_room(int64_t bytes, Observation& observation) {
    if (worker.grow(bytes)) return true;
    observation.outcome = CallOutcome::TooLarge;
    observation.error = "the shared memory could not be created";
    stop();
    return false;
  }

  Observation observe(const trial::Trial& trial, const MemoryFileLayout& layout) {
    Observation observation = observe_once(trial, layout);
    if (!std::exchange(lost_going_on, false)) return observation;
    return observe_once(trial, layout);  // it was no fault of this trial's
  }

  Observation observe_once(const trial::Trial& trial, const MemoryFileLayout& layout) {
    Observation observation;
    protocol::Reply reply;
    if (!has_worker({trial.condition.gpu, trial.condition.clock}, observation) ||
        !has_room(layout.size, observation))
      return observation;
    write_images(layout, trial, worker.memory());
    if (exchange(request_for(trial, layout), reply, observation))
      take_reply(reply, trial, layout, observation);
    return observation;
  }

  // One call of which nothing is copied, in either direction: all buffers have the same empty image.
  Observation record(MemoryFileLayout& layout) {
    Observation observation;
    protocol::Reply reply;
    trial::Trial trial;
    trial.condition.ordered = false;
    int64_t largest = 0;
    for (protocol::BufferRequest& buffer : layout.calls.front().request.buffers) {
      buffer.is_input = true;  // not marked as undefined, which would take time
      buffer.in = buffer.out = 0;
      buffer.parts = {{0, 0}};
      largest = std::max(largest, buffer.bytes);
    }
    if (has_worker({}, observation) && has_room(largest, observation) &&
        exchange(request_for(trial, layout), reply, observation) && !failed(reply, observation))
      for (const int returned : reply.returned) observation.calls.push_back({.returned = returned});
    return observation;
  }

  // A real GPU is shared with others: if the worker cannot allocate before the call, that is no fault of the kernel.
  bool is_out_of_memory(const protocol::CudaFailure& failure) const {
    constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation
    return !is_virtual() && failure.code == kOutOfMemory && failure.is_ours;
  }

  // Whether a call itself failed; then the process is of no further use.
  bool failed(const protocol::Reply& reply, Observation& observation) {
    if (reply.python) {
      observation.outcome = CallOutcome::PythonFailed;
      observation.error = reply.python->text;
      observation.python = reply.python;
    } else if (reply.failure && is_out_of_memory(*reply.failure)) {
      observation.outcome = CallOutcome::NoDeviceMemory;
      observation.error =
          "the GPU has no free memory for the call's buffers; end other processes on it (nvidia-smi lists "
          "them)";
    } else if (reply.failure) {
      observation.outcome = CallOutcome::DeviceError;
      observation.error_code = reply.failure->code;
      observation.error =
          fmt::format("{} ({}) from {}", reply.failure->name, reply.failure->text, reply.failure->stage);
    } else {
      return false;
    }
    stop();
    return true;
  }

  // What blocks wrote is given from the start of an allocation; from here on, from the start of the tensor in it.
  static void place_pieces(const protocol::CallRequest& call, protocol::SampleReport& report) {
    for (protocol::SampledLaunch& launch : report.launches)
      for (protocol::BlockPiece& piece : launch.pieces) {
        if (!piece.writes) continue;
        const auto buffer = std::find_if(call.buffers.begin(), call.buffers.end(), [&](const auto& one) {
          return one.name == launch.writes[*piece.writes].buffer;
        });
        const uint64_t start = buffer == call.buffers.end() ? 0 : static_cast<uint64_t>(buffer->offset);
        if (buffer == call.buffers.end() || piece.offset < start) piece.count = 0;
        if (piece.count > 0) piece.offset -= start;
      }
  }

  void take_reply(const protocol::Reply& reply, const trial::Trial& trial, const MemoryFileLayout& layout,
                  Observation& observation) {
    observation.seconds = reply.seconds;
    observation.sample = reply.sample;
    if (observation.sample) place_pieces(layout.calls.front().request, *observation.sample);
    observation.load = reply.load;
    observation.buffers = reply.buffers;
    observation.time = reply.time;
    if (failed(reply, observation)) return;
    for (std::size_t i = 0; i < layout.calls.size(); ++i) {
      observation.calls.push_back(read_images(layout.calls[i], trial, worker.memory()));
      if (i < reply.returned.size()) observation.calls.back().returned = reply.returned[i];
    }
  }
};

Runner::Runner(const contract::Contract& contract, const Subject& subject, RunnerOptions options)
    : impl_(std::make_unique<Impl>(contract, subject, std::move(options))) {}
Runner::~Runner() = default;
Runner::Runner(Runner&&) noexcept = default;

Observation Runner::run(const trial::Trial& trial, const contract::Bindings& first,
                        const contract::Bindings* second) {
  std::vector<const contract::Bindings*> bindings = {&first};
  if (second) bindings.push_back(second);
  const int64_t guard = impl_->is_virtual() ? 0 : 4096;
  const auto layout = lay_out(impl_->contract, trial, bindings, guard);
  if (!layout) {
    Observation observation;
    observation.outcome = CallOutcome::Unavailable;
    observation.error = layout.error().text();
    return observation;
  }
  if (trial.condition.perturbed && !impl_->is_virtual()) {
    Observation observation = run_perturbed(trial, *layout);
    note_gone_on(observation);
    return observation;
  }
  if (perturbed_) perturbed_->settle();
  if (trial.condition.fresh || impl_->is_worn_out) restart();
  const Machine wanted{trial.condition.gpu, trial.condition.clock};
  if (!impl_->is_virtual() && impl_->worker.is_running() && wanted != impl_->worker.machine()) restart();
  take_spare(wanted);
  Observation observation =
      trial.sampled && !impl_->is_virtual() ? run_giant(trial, *layout) : impl_->observe(trial, *layout);
  // A call that could not be captured into a graph may have left anything behind.
  impl_->is_worn_out = observation.load.has_value() && !trial.condition.fresh;
  if (observation.outcome != CallOutcome::Unavailable) keep_spare();
  note_gone_on(observation);
  return observation;
}

// What was repeated while earlier trials were judged.
void Runner::note_gone_on(Observation& observation) {
  for (Impl* impl : {impl_.get(), perturbed_.get()}) {
    if (!impl) continue;
    const Impl::GoneOn gone_on = std::exchange(impl->gone_on, {});
    observation.time += gone_on.time;
    observation.repeats += gone_on.repeats;
    if (gone_on.shaken) observation.shaken = gone_on.shaken;
  }
}

// Tensors that need much of a GPU's memory wait for their turn; where there was too little all the same, for all of it.
Observation Runner::run_giant(const trial::Trial& trial, const MemoryFileLayout& layout) {
  using Clock = std::chrono::steady_clock;
  Observation observation;
  double waited = 0;
  for (const int64_t bytes : {bytes_of(layout), GpuTurn::kShares * GpuTurn::kShareBytes}) {
    const auto begun = Clock::now();
    const GpuTurn turn(bytes);
    waited += std::chrono::duration<double>(Clock::now() - begun).count();
    observation = impl_->observe(trial, layout);
    if (observation.outcome != CallOutcome::NoDeviceMemory) break;
  }
  observation.turn_seconds = waited;
  return observation;
}

// On a real GPU it takes a third of a second until a process is ready: the next one gets ready while this one works.
void Runner::keep_spare() {
  const RunnerOptions& options = impl_->worker.options();
  if (impl_->is_virtual() || !options.witness.empty() || impl_->worker.is_python() || interrupted()) return;
  if (!spare_) spare_ = std::make_unique<Impl>(impl_->contract, impl_->subject, options);
  if (spare_->worker.is_running()) return;
  spare_->worker.set_machine({});
  spare_->launched = spare_->worker.launch().outcome == CallOutcome::Ended;
  if (!spare_->launched) spare_->stop();
}

void Runner::take_spare(const Machine& wanted) {
  if (impl_->worker.is_running() || !spare_ || !spare_->worker.is_running()) return;
  if (wanted != spare_->worker.machine()) return;
  spare_->worker.set_timeout(impl_->worker.options().timeout);
  spare_->goes_on = impl_->goes_on;
  spare_->sample_seconds = impl_->sample_seconds;
  spare_->gone_on = std::exchange(impl_->gone_on, {});
  spare_->worker.note_files_guarded(impl_->worker.files_guarded());
  std::swap(impl_, spare_);
}

void Runner::begin_to_perturb() {
  if (code_folder_) return;
  code_folder_ = std::make_unique<TemporaryFolder>("code");
  code_ = std::async(std::launch::async,
                     [subject = impl_->subject, arch = impl_->contract.kernel.arch,
                      folder = code_folder_->path()] { return perturbed_code(subject, arch, folder); });
}

// In a process of its own, which stays beside the other.
Observation Runner::run_perturbed(const trial::Trial& trial, const MemoryFileLayout& layout) {
  Observation observation;
  if (!perturbed_) {
    begin_to_perturb();
    if (code_.valid()) {
      const PerturbedCode code = code_.get();
      code_problem_ = code.problem;
      if (!code.file.empty()) {
        RunnerOptions options = impl_->worker.options();
        options.other_code = code.file;
        perturbed_ = std::make_unique<Impl>(impl_->contract, impl_->subject, std::move(options));
      }
    }
  }
  if (!perturbed_) {
    observation.outcome = CallOutcome::NotPerturbed;
    observation.error = fmt::format("its code cannot be given pauses: {}", code_problem_);
    return observation;
  }
  impl_->settle();  // once the code is there: until then the GPU has something to do
  perturbed_->worker.set_timeout(impl_->worker.options().timeout);
  perturbed_->goes_on = impl_->goes_on;
  if (trial.condition.fresh) {
    perturbed_->settle();
    perturbed_->stop();
  }
  observation = perturbed_->observe(trial, layout);
  observation.time.waiting = 0;  // the other process worked meanwhile
  return observation;
}

void Runner::prepare() {
  const RunnerOptions& options = impl_->worker.options();
  if (!impl_->is_virtual() && options.witness.empty() && !impl_->worker.is_python()) begin_to_perturb();
  if (!impl_->worker.is_python() || interrupted()) return;
  impl_->stop();
  impl_->worker.set_machine({});
  impl_->prepared = impl_->worker.start();
}

Observation Runner::record(const contract::Bindings& bindings, const trial::Condition& condition) {
  trial::Trial trial;
  trial.condition = condition;
  auto layout = lay_out(impl_->contract, trial, {&bindings}, 0);
  if (layout) return impl_->record(*layout);
  Observation observation;
  observation.outcome = CallOutcome::Unavailable;
  observation.error = layout.error().text();
  return observation;
}

void Runner::finish(double seconds) {
  impl_->worker.finish(seconds);
  impl_->stop();
}

void Runner::restart() {
  impl_->settle();
  impl_->stop();
}
std::vector<pid_t> Runner::processes() const {
  const auto& interpreter = impl_->subject.interpreter;
  return {impl_->worker.process(), interpreter ? interpreter->process() : 0};
}
int64_t Runner::calls_in_process() const {
  return impl_->is_worn_out ? 0 : impl_->calls;
}
bool Runner::files_guarded() const {
  return impl_->worker.files_guarded();
}
double Runner::build_seconds() const {
  return impl_->worker.build_seconds();
}
void Runner::set_sample_seconds(double seconds) {
  impl_->sample_seconds = seconds;
}
void Runner::set_sample_blocks(uint64_t blocks, std::vector<uint64_t> wanted) {
  impl_->sample_blocks = blocks;
  impl_->wanted_blocks = std::move(wanted);
}
void Runner::set_goes_on(bool goes_on) {
  impl_->goes_on = goes_on;
}
void Runner::set_timeout(double seconds) {
  impl_->worker.set_timeout(seconds);
}

}  // namespace assay::subject
