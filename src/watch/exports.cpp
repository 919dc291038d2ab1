// The C functions of include/assay_monitor.h.
#include <exception>

#include "watch/watch.h"

using assay::watch::Watch;

namespace {

thread_local std::string last_error;

Watch* watch_of(assay_watch* watch) {
  return reinterpret_cast<Watch*>(watch);
}

const Watch* watch_of(const assay_watch* watch) {
  return reinterpret_cast<const Watch*>(watch);
}

}  // namespace

int assay_open(const char* contract, const char* certificate, assay_watch** out) {
  *out = nullptr;
  try {
    auto watch = Watch::open(contract ? contract : "", certificate ? certificate : "");
    if (watch) {
      *out = reinterpret_cast<assay_watch*>(watch->release());
      return 0;
    }
    last_error = watch.error().text();
  } catch (const std::exception& error) {
    last_error = error.what();
  }
  return -1;
}

const char* assay_error(void) {
  return last_error.c_str();
}

void assay_library(assay_watch* watch, const char* path) {
  if (watch) watch_of(watch)->set_library(path ? path : "");
}

const char* assay_argument(const assay_watch* watch, int index) {
  return watch ? watch_of(watch)->argument(index) : nullptr;
}

void assay_close(assay_watch* watch) {
  // To end an inherited one would wait for a thread that this process does not have.
  if (watch && !watch_of(watch)->is_inherited()) delete watch_of(watch);
}

uint64_t assay_before(assay_watch* watch, void* const* args, void* stream) {
  return watch ? watch_of(watch)->before(args, stream) : 0;
}

void assay_after(assay_watch* watch, uint64_t ticket, void* const*, void* stream) {
  if (watch && ticket != 0) watch_of(watch)->after(ticket, stream);
}

int assay_mode(assay_watch* watch, enum assay_mode mode) {
  if (!watch || mode < ASSAY_OBSERVE || mode > ASSAY_REFERENCE) return -1;
  watch_of(watch)->set_mode(mode);
  return 0;
}

enum assay_mode assay_mode_now(const assay_watch* watch) {
  return watch ? watch_of(watch)->mode() : ASSAY_OBSERVE;
}

int assay_shadow(assay_watch* watch, uint64_t ticket, void** args, void* stream) {
  return watch && watch_of(watch)->shadow(ticket, args, stream) ? 1 : 0;
}

void assay_on_alarm(assay_watch* watch, void (*call)(const char* json, void* context), void* context) {
  if (watch) watch_of(watch)->on_alarm(call, context);
}

int assay_graph_reserve(assay_watch* watch, int calls) {
  return watch && watch_of(watch)->graph_reserve(calls) ? 0 : -1;
}

int assay_graph_begin(assay_watch* watch) {
  return watch && watch_of(watch)->graph_begin() ? 0 : -1;
}

void assay_graph_end(assay_watch* watch) {
  if (watch) watch_of(watch)->graph_end();
}

void assay_graph_bind(assay_watch* watch, void* with_copies) {
  if (watch) watch_of(watch)->graph_bind(with_copies);
}

void assay_graph_close(assay_watch* watch, void* with_copies) {
  if (watch) watch_of(watch)->graph_close(with_copies);
}

int assay_graph_launch(assay_watch* watch, void* plain, void* with_copies, void* stream) {
  return assay_graph_launch_all(&watch, 1, plain, with_copies, stream);
}

int assay_graph_launch_all(assay_watch* const* watches, int count, void* plain, void* with_copies,
                           void* stream) {
  std::vector<Watch*> all;
  for (int i = 0; i < count; ++i)
    if (watches[i]) all.push_back(watch_of(watches[i]));
  return all.empty() ? -1 : Watch::graph_launch(all, plain, with_copies, stream);
}

void assay_count(const assay_watch* watch, struct assay_counts* counts) {
  *counts = watch ? watch_of(watch)->count() : assay_counts{};
}

int assay_flush(assay_watch* watch, int milliseconds) {
  return !watch || watch_of(watch)->flush(milliseconds) ? 0 : -1;
}
