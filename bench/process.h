// Programs run aside, without a shell: within a time limit, on given processors, their last words kept.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace varve::bench {

struct Command {
  std::vector<std::string> words = {};                  // the program and its arguments
  std::map<std::string, std::string> environment = {};  // added to this process's own
  std::vector<int> processors = {};                     // that it may run on; empty: all of this process's
  double limit_seconds = 600;
  std::size_t tail_bytes = 4000;         // of its output, kept
  std::function<void()> meanwhile = {};  // called again and again until it ends
};

struct Finished {
  bool started = false;     // false: no such program; `output` says what the system said
  int exit_code = -1;       // -1: it did not end by itself
  int signal = 0;           // that ended it
  bool timed_out = false;   // it was ended for running past its limit
  std::string output = {};  // the end of stdout and stderr together
  double seconds = 0;
  std::vector<double> busy = {};  // processors in use, a number for each half second of its life
};

// Waits for the end. At the limit the program and all that it started are killed. When this process is itself asked to
// end (Ctrl-C), they end with it.
Finished run(const Command& command);

// One processor of each core first, so that few threads do not share a core. At most as many as there are.
std::vector<int> spread_processors(int count);

// The running program itself, also when its file was replaced meanwhile, as by a build.
inline constexpr const char* kThisProgram = "/proc/self/exe";
std::string this_program();  // its path

}  // namespace varve::bench
