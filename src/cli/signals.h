// Signals that ask to stop.
#pragma once

namespace assay::cli {

// From now on the first SIGINT, SIGTERM or SIGHUP makes what is under way end early (base/interrupt.h), so
// that the command can say what it has found and clean up; the second ends the program at once.
void stop_on_signals();

// The command's exit status, unless a signal came: then 128 and its number, as shells have it.
int status_after_signals(int status);

}  // namespace assay::cli
