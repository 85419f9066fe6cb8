// This process's GPU among those of the other ranks.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "backends/cuda/device/context.h"
#include "backends/cuda/nccl/library.h"

namespace varve::cuda {

// One communicator, and one stream on which everything that is sent runs in the order of the calls: the same on every
// rank. A watchdog ends what runs there when the job fails, so that nobody waits for a rank that is gone.
class Wire {
 public:
  Wire(Context& context, const backend::DeviceRanks& ranks);  // all ranks at once; throws Error: who is missing
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // What `call` starts runs after what the context's stream was given so far, and before what that is given next. While
  // a step is recorded: after what the piece at work follows, beside the pieces that do not follow this one.
  template <class Call>
  void run(Call call) {
    fork();
    call(communicator_, stream_);
    join();
  }
  std::string failure() const;  // why nothing more can be sent; empty: all is well

 private:
  ncclComm_t connect(ncclUniqueId id);
  void fork();
  void join();
  void watch();
  std::string own_error();  // that NCCL has met; empty: none

  Context& context_;
  backend::DeviceRanks ranks_;
  ncclComm_t communicator_ = nullptr;
  CUstream stream_ = nullptr;
  CUevent forked_ = nullptr, joined_ = nullptr;
  struct Watch;
  std::shared_ptr<Watch> watch_;  // shared with the watchdog, which may outlive the process's last steps
  std::thread watchdog_;
};

// Once Context::join was called.
Wire& wire();

}  // namespace varve::cuda
