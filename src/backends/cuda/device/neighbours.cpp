// Memory and streams of other libraries in this process (PyTorch, JAX, CuPy) on the same GPU.
#include "backends/cuda/device/context.h"
#include "backends/cuda/device/status.h"
#include "base/text.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

class ForeignMemory final : public ir::Remote {
 public:
  ForeignMemory(Context& context, void* at, std::size_t size, std::function<void()> release)
      : context_(context), release_(std::move(release)) {
    device = &context;
    address = at;
    bytes = size;
    foreign = true;
  }
  // Its owner may use the memory again at once, on a stream that we do not know: what we started must have ended.
  ~ForeignMemory() override {
    context_.make_current();
    cuStreamSynchronize(context_.stream());
    if (release_) release_();
  }
  void fetch(void* to) override {
    context_.make_current();
    if (bytes)
      check(cuMemcpyDtoHAsync(to, reinterpret_cast<CUdeviceptr>(address), bytes, context_.stream()),
            "cuMemcpyDtoHAsync");
    context_.wait();
  }

 private:
  Context& context_;
  std::function<void()> release_;
};

void check_address(const Gpu& gpu, void* address) {
  int ordinal = -1;
  const CUresult status =
      cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, reinterpret_cast<CUdeviceptr>(address));
  if (status != CUDA_SUCCESS)
    throw Error(cat("the address ", address, " is not memory that the CUDA driver knows (", text_of(status), ")."));
  if (ordinal != gpu.ordinal)
    throw Error(cat("the address ", address, " is memory of cuda:", ordinal, ", not of cuda:", gpu.ordinal,
                    ". Copy it to cuda:", gpu.ordinal, " first."));
}

constexpr std::intptr_t kNone = -1, kDefault = 1;  // 0 and 1 are the default stream, there as long as the process

// `later` runs what it is given from now on after what `earlier` was given.
void order(CUstream earlier, CUstream later) {
  CUevent event = nullptr;
  check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  CUresult status = cuEventRecord(event, earlier);
  if (status == CUDA_SUCCESS) status = cuStreamWaitEvent(later, event, 0);
  cuEventDestroy(event);  // released by the driver once it has been passed
  check(status, "cuStreamWaitEvent");
}

}  // namespace

std::shared_ptr<ir::Remote> Context::adopt(void* address, std::size_t bytes, std::function<void()> release) {
  make_current();
  if (bytes) check_address(gpu_, address);
  return std::make_shared<ForeignMemory>(*this, address, bytes, std::move(release));
}

void Context::let_follow(std::intptr_t stream) {
  if (stream == kNone) return;
  make_current();
  order(stream_, reinterpret_cast<CUstream>(stream));
}

// Other streams may have been destroyed by now, or belong to another thread: all that the GPU was given is waited for.
void Context::follow(std::intptr_t stream) {
  make_current();
  if (stream >= 0 && stream <= kDefault)
    order(reinterpret_cast<CUstream>(stream), stream_);
  else
    check(cuCtxSynchronize(), "cuCtxSynchronize");
}

}  // namespace varve::cuda
