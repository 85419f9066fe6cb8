// g++ behind the emulated NVRTC, with a cache of what it made.
#pragma once

#include <string>
#include <vector>

namespace varve::emulator {

struct CompileJob {
  std::string source;                // as for_gcc gives it
  std::vector<std::string> options;  // g++'s
};

struct Compiled {
  std::string library;  // its path; empty when the text does not compile
  std::string log;
};

Compiled compile(const CompileJob& job);

}  // namespace varve::emulator
