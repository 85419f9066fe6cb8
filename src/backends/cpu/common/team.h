// How many threads a kernel is prepared for, and keeping a library to that number.
#pragma once

namespace varve::cpu {

// What governed when a kernel was offered. Kernels keep it: a plan prepares each of them twice or more, and the scratch
// that the first one asked for must be enough for all.
struct Setting {
  int threads = 1;
  bool deterministic = false;

  static Setting now();
};

// OpenMP's team size while it lives. oneDNN plans for that size and must find the same when it runs. The size belongs
// to the calling thread, so others do not notice.
class Team {
 public:
  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

 private:
  int before_;
};

}  // namespace varve::cpu
