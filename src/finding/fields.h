// The fields of everything that a finding holds, by name: one list for each struct, from which json.cpp both
// writes and reads it. A visitor takes
//
//     v("bytes", e.bytes)            a field under its name
//     v.judge("element", p.element)  one that is filled in on the trusted side: never read from an event
//     v.flat(e.code)                 the fields of a part, among those of the whole
//     v.always("share", l.share)     one that is written even where it is zero: because its default is not,
//     or
//                                    because readers of a table expect it in every row
#pragma once

#include "finding/finding.h"

namespace assay::fields {

using namespace evidence;

template <class V>
void list(V& v, Where& w) {
  v("file", w.file);
  v("line", w.line);
}
template <class V>
void list(V& v, Frame& f) {
  v.flat(f.where);
  v("function", f.function);
  v("called", f.called);
}
template <class V>
void list(V& v, HostPlace& h) {
  v("calls", h.calls);
  v("stack", h.stack);
  v("system_call", h.system_call);
  v.judge("where", h.where);
  v.judge("function", h.function);
  v.judge("code", h.code);
}
template <class V>
void list(V& v, CodePlace& c) {
  v("kernel", c.kernel);
  v("block", c.block);
  v("thread", c.thread);
  v("instruction", c.instruction);
  v("chain", c.chain);
  v("launched_at", c.launched_at);
}
template <class V>
void list(V& v, Allocation& a) {
  v("label", a.label);
  v("bytes", a.bytes);
  v("id", a.id);
  v.always("live", a.live);
  v("made_at", a.made_at);
}
template <class V>
void list(V& v, SharedArray& a) {
  v("name", a.name);
  v("symbol", a.symbol);
  v("bytes", a.bytes);
  v("offset", a.offset);
  v("is_scalar", a.is_scalar);
  v.judge("indices", a.indices);
  v.judge("rest", a.rest);
}
template <class V>
void list(V& v, TensorElement& e) {
  v("tensor", e.tensor);
  v("extents", e.extents);
  v("index", e.index);
}
template <class V>
void list(V& v, Place& p) {
  v("space", p.space);
  v.hex("address", p.address);
  v("allocation", p.allocation);
  v("offset", p.offset);
  v("is_host_memory", p.is_host_memory);
  v("array", p.array);
  v("owner", p.owner);
  v("owner_ended", p.owner_ended);
  v("missing_rank", p.missing_rank);
  v.judge("element", p.element);
}
template <class V>
void list(V& v, Operation& o) {
  v("kind", o.kind);
  v("stream", o.stream);
}
template <class V>
void list(V& v, Unwritten& u) {
  v("name", u.name);
  v("count", u.count);
  v("total", u.total);
  v("first", u.first);
  v("in_bytes", u.in_bytes);
  v("at_least", u.at_least);
}
template <class V>
void list(V& v, Access& a) {
  v.flat(a.code);
  v("access", a.access);
  v("bytes", a.bytes);
  v("alignment", a.alignment);
  v.flat(a.place);
  v("neighbour", a.neighbour);
  v("shared_bytes", a.shared_bytes);
  v("hazard", a.hazard);
  v("detail", a.detail);
  v("undefined", a.undefined);
  v("shuffle", a.shuffle);
  v("input", a.input);
  v("changed", a.changed);
  v("operation", a.operation);
  v("unwritten", a.unwritten);
  v("host", a.host);
  v.judge("bytes_changed", a.bytes_changed);
}
template <class V>
void list(V& v, Fix& f) {
  v("remedy", f.remedy);
  v("warp", f.warp);
  v("low", f.low);
  v("high", f.high);
  v("between", f.between);
  v("before_again", f.before_again);
}
template <class V>
void list(V& v, OtherAccess& o) {
  v.flat(o.where);
  v.flat(o.code);
  v("access", o.access);
  v("is_asynchronous", o.is_asynchronous);
  v("is_same_thread", o.is_same_thread);
  v("is_same_warp", o.is_same_warp);
  v("is_same_block", o.is_same_block);
  v("is_counted_copy", o.is_counted_copy);
  v("operation", o.operation);
}
template <class V>
void list(V& v, Race& r) {
  v.flat(r.code);
  v("access", r.access);
  v.flat(r.place);
  v("relation", r.relation);
  v("operation", r.operation);
  v("other", r.other);
  v("noncoherent", r.noncoherent);
  v("same_value", r.same_value);
  v("order_by", r.fix);
  v("host", r.host);
  v("schedule", r.schedule);
}
template <class V>
void list(V& v, Synchronisation& s) {
  v.flat(s.code);
  v.hex("lanes", s.lanes);
  v("detail", s.detail);
  v("matters_at", s.matters_at);
  v("undefined", s.undefined);
}
template <class V>
void list(V& v, Growth& g) {
  v("what", g.what);
  v("per_call", g.per_call);
  v("calls", g.calls);
  v("held", g.held);
  v("allocations", g.allocations);
}
template <class V>
void list(V& v, Launch& l) {
  v("kernel", l.kernel);
  v("function", l.function);
  v("status", l.status);
  v("status_name", l.status_name);
  v("detail", l.detail);
  v("asked", l.asked);
  v("host", l.host);
  v("operations", l.operations);
  v("growth", l.growth);
  v("allocation", l.allocation);
}
template <class V>
void list(V& v, Process& p) {
  v("what", p.what);
  v("detail", p.detail);
  v("host", p.host);
  v("entry", p.entry);
  v("kernel", p.kernel);
  v("limit", p.limit);
  v("standing", p.standing);
  v.judge("smaller", p.smaller);
  v("touched_device_memory", p.touched_device_memory);
  v.judge("raised", p.raised);
}
template <class V>
void list(V& v, ComparedText& c) {
  v("stored", c.stored);
  v("exact", c.exact);
  v("error", c.error);
  v("budget", c.budget);
  v("times", c.times);
  v("is_exact", c.is_exact);
}
template <class V>
void list(V& v, Worst& w) {
  v("index", w.index);
  v("stored", w.stored);
  v("exact", w.exact);
  v("low", w.low);
  v("high", w.high);
  v("z", w.z);
  v("terms", w.terms);
  v("text", w.text);
}
template <class V>
void list(V& v, Part& p) {
  v("part", p.name);
  v("elements", p.elements);
  v("observed", p.observed);
  v("expected", p.expected);
  v("log10_p", p.log10_p);
  v("gain", p.gain);
  v("by_terms", p.by_terms);
}
template <class V>
void list(V& v, Diagnosis& d) {
  v("defect", d.defect);
  v("description", d.description);
  v("correlation", d.correlation);
  v("explained", d.explained);
  v("by_profile", d.by_profile);
}
template <class V>
void list(V& v, Difference& d) {
  v("relation", d.relation);
  v("change", d.change);
  v("dim", d.dim);
  v("count", d.count);
  v("index", d.index);
  v("first", d.first);
  v("second", d.second);
}
template <class V>
void list(V& v, ErrorLine& e) {
  v.flat(e.where);
  v("operation", e.operation);
  v("reason", e.reason);
  v.always("share", e.share);
  v("cancels_at", e.cancels_at);
  v("cancelled_bits", e.cancelled_bits);
  v("amplification", e.amplification);
}
template <class V>
void list(V& v, LineProfile& l) {
  v.flat(l.where);
  v("operation", l.operation);
  v.always("share", l.share);
  v.always("introduced", l.introduced);
  v.always("introduced_max", l.introduced_max);
  v.always("inherited", l.inherited);
  v.always("amplification", l.amplification);
  v.always("executions", l.executions);
  v.always("cancelled_bits", l.cancelled_bits);
  v.always("cancelled_bits_mean", l.cancelled_bits_mean);
  v.always("cancelled_from", l.cancelled_from);
  v.always("stagnated", l.stagnated);
  v.always("overflowed", l.overflowed);
  v.always("flushed", l.flushed);
  v.always("pooled", l.pooled);
  v("rounds_result", l.rounds_result);
}
template <class V>
void list(V& v, LineShare& l) {
  v.flat(l.where);
  v.always("share", l.share);
}
template <class V>
void list(V& v, OutputProfile& o) {
  v("name", o.name);
  v.always("error", o.error);
  v.always("relative", o.relative);
  v.always("elements", o.elements);
  v.always("broken", o.broken);
  v.always("others", o.others);
  v("rounded_at", o.rounded_at);
  v.always("lines", o.lines);
}
template <class V>
void list(V& v, Decision& d) {
  v.flat(d.where);
  v("what", d.what);
  v("count", d.count);
}
template <class V>
void list(V& v, Retaken& r) {
  v.flat(r.where);
  v("operation", r.operation);
  v("count", r.count);
}
template <class V>
void list(V& v, Profile& p) {
  v.always("lines", p.lines);
  v.always("outputs", p.outputs);
  v.always("decisions", p.decisions);
  v.always("retaken", p.retaken);
  v("inputs", p.inputs);
}
template <class V>
void list(V& v, Numeric& n) {
  v("output", n.output);
  v("misfit", n.misfit);
  v("is_integer", n.is_integer);
  v("elements_judged", n.judged);
  v("elements_outside", n.outside);
  v("nonfinite_differs", n.class_differs);
  v("hidden", n.hidden);
  v("worst", n.worst);
  v("parts", n.parts);
  v("lean", n.lean);
  v("diagnosis", n.diagnosis);
  v("difference", n.difference);
  v("error_line", n.error_line);
  v("precision", n.profile);
  v.judge("kernel", n.kernel);
  v.judge("launched_at", n.launched_at);
}
template <class V>
void list(V& v, Code& c) {
  v("kernel", c.kernel);
  v("instruction", c.instruction);
  v("detail", c.detail);
}
template <class V>
void list(V& v, Training& t) {
  v("slot", t.slot);
  v("tokens", t.tokens);
  v("optimizer", t.optimizer);
  v("teacher_forced", t.teacher_forced);
  v.always("step", t.step);
  v("tensor", t.tensor);
  v("part", t.part);
  v.always("gain", t.gain);
  v.always("cosine", t.cosine);
  v.always("relative_error", t.relative_error);
  v.always("noise", t.noise);
  v("loss_gap", t.loss_gap);
  v("nonfinite", t.nonfinite);
  v("log10_evidence", t.log10_evidence);
  v("false_alarms", t.false_alarms);
}
template <class V>
void list(V& v, Attribution& a) {
  v("difference_between_runs", a.difference);
  v("symptom", a.symptom);
  v("also", a.also);
  v("related", a.related);
  v("relation", a.relation);
  v("surroundings", a.surroundings);
  v("out_of_time", a.out_of_time);
}
template <class V>
void list(V& v, FoundCase& f) {
  v("found_with", f.found_with);
  v("smallest", f.smallest);
  v("smallest_shows", f.smallest_shows);
  v("trials", f.trials);
  v("devices", f.devices);
  v("other_shows", f.other_shows);
  v("witness", f.witness);
}

// ---- Names of enumerators, in their order ----

inline constexpr std::string_view kSpaces[] = {"",      "generic",  "global",    "shared",
                                               "local", "constant", "parameter", "host"};
inline constexpr std::string_view kAccessKinds[] = {"access", "read", "write", "atomic", "free"};
inline constexpr std::string_view kUndefined[] = {"", "branch", "address", "store", "collective"};
inline constexpr std::string_view kHazards[] = {"", "not-started", "may-have-ended"};
inline constexpr std::string_view kRelations[] = {"",     "warp",       "block", "blocks",
                                                  "copy", "operations", "host"};
inline constexpr std::string_view kRemedies[] = {"",
                                                 "one-writer-or-atomic",
                                                 "atomic-or-barrier",
                                                 "barrier",
                                                 "plain-load",
                                                 "wait-for-copy",
                                                 "wait-for-copy-then-barrier",
                                                 "cluster-barrier",
                                                 "device-scope",
                                                 "both-atomic",
                                                 "atomic-or-one-block",
                                                 "later-launch-or-flag",
                                                 "order-operations",
                                                 "wait-on-host",
                                                 "wait-for-grid",
                                                 "proxy-fence"};

inline std::span<const std::string_view> names_of(Space) {
  return kSpaces;
}
inline std::span<const std::string_view> names_of(AccessKind) {
  return kAccessKinds;
}
inline std::span<const std::string_view> names_of(Undefined) {
  return kUndefined;
}
inline std::span<const std::string_view> names_of(ClusterHazard) {
  return kHazards;
}
inline std::span<const std::string_view> names_of(Relation) {
  return kRelations;
}
inline std::span<const std::string_view> names_of(Remedy) {
  return kRemedies;
}

}  // namespace assay::fields
