// One writer at a time in the folder of a run.
#pragma once

#include <string>

namespace varve::train {

// Holds the folder until it is destroyed; Error, which names the process that holds it, when another does. The system
// lets go of it when a process ends, however it ends.
class RunLock {
 public:
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  std::string path_;
  int file_ = -1;
};

// Who holds the folder now: "process 4711", "" when nobody does.
std::string holder_of(const std::string& folder);

// The folder that a run writes: made where there is none, locked, and without what an earlier process, killed while it
// wrote a file, left there. One that was made for this run and in which nothing was trained goes again with it.
class RunFolder {
 public:
  explicit RunFolder(const std::string& folder);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  void keep() { kept_ = true; }  // there is something in it that is worth keeping

 private:
  std::string folder_;
  RunLock lock_;
  bool kept_ = false;
};

}  // namespace varve::train
