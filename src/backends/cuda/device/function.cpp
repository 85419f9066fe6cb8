#include "backends/cuda/device/function.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <semaphore>
#include <set>
#include <thread>

#include "backends/cuda/device/context.h"
#include "backends/cuda/device/status.h"
#include "base/files.h"
#include "base/text.h"
#include "base/threads.h"
#include "varve/error.h"

namespace varve::cuda {
namespace {

// nvrtcDestroyProgram takes a pointer to the handle.
class NvrtcProgram {
 public:
  explicit NvrtcProgram(const KernelText& text) {
    const std::vector<NamedText> all = reached_texts(text);
    std::vector<const char*> names, headers;
    for (std::size_t i = 1; i < all.size(); ++i) {
      names.push_back(all[i].name.c_str());
      headers.push_back(all[i].text.c_str());
    }
    check(nvrtcCreateProgram(&program_, all[0].text.c_str(), all[0].name.c_str(), static_cast<int>(names.size()),
                             headers.data(), names.data()),
          "nvrtcCreateProgram");
  }
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;
  ~NvrtcProgram() { nvrtcDestroyProgram(&program_); }
  nvrtcProgram get() const { return program_; }

 private:
  nvrtcProgram program_ = nullptr;
};

std::string log_of(nvrtcProgram program) {
  std::size_t size = 0;
  if (nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS || size == 0) return "";
  std::string log(size, '\0');
  if (nvrtcGetProgramLog(program, log.data()) != NVRTC_SUCCESS) return "";
  return log;
}

std::string compiler_version() {
  int major = 0, minor = 0;
  check(nvrtcVersion(&major, &minor), "nvrtcVersion");
  return cat(major, ".", minor);
}

std::filesystem::path cache_file(const KernelText& text, const std::string& arch) {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return {};
  return folder / cat(hash_of(text), "-", arch, "-nvrtc", compiler_version(), ".cubin");
}

std::string kept_code(const std::filesystem::path& file) {
  std::error_code error;
  if (file.empty() || !std::filesystem::exists(file, error)) return "";
  try {
    const std::vector<std::byte> bytes = read_file(file, std::uint64_t{1} << 28);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  } catch (const Error&) {
    return "";
  }
}

// A cache that cannot be written costs time, no more.
void keep_code(const std::filesystem::path& file, const std::string& code) {
  if (file.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  try {
    AtomicFile out(file);
    out.write(code);
    out.commit();
  } catch (const Error&) {
  }
}

// The machine code to ask for: of this GPU, with the instructions that only this kind has.
std::string arch_of(const Gpu& gpu) {
  return cat("sm_", gpu.major, gpu.minor, gpu.major == 9 && gpu.minor == 0 ? "a" : "");
}

}  // namespace

std::filesystem::path cache_folder() {
  auto variable = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  if (const std::string own = variable("VARVE_CUDA_CACHE"); !own.empty()) return own;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/varve/cuda";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/varve/cuda";
  return {};
}

namespace {
std::shared_future<CUmodule> module_of(const KernelText& text);
}

struct Function::State {
  std::string name;
  KernelText text;                      // until its compilation has begun
  std::shared_future<CUmodule> module;  // not valid before
  std::once_flag loaded;
  CUfunction function = nullptr;
  std::size_t shared = 48 * 1024;

  CUfunction get() {
    std::call_once(loaded, [&] {
      if (!module.valid()) module = module_of(text);
      check(cuModuleGetFunction(&function, module.get(), name.c_str()), "cuModuleGetFunction");
    });
    return function;
  }
  void allow(std::size_t bytes) {
    if (bytes <= shared) return;
    check(cuFuncSetAttribute(get(), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes)),
          "cuFuncSetAttribute");
    shared = bytes;
  }
};

namespace {

// As many compilations at a time as there are processors. When the process ends, those that run are waited for, since
// libraries take their own state down then, and no other begins.
class Turn {
 public:
  Turn() {
    all().free.acquire();
    if (!all().ending) return;
    all().free.release();
    throw Error("the process ends.");
  }
  ~Turn() { all().free.release(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  static void end() {
    if (all().ending.exchange(true)) return;
    for (int i = 0; i < all().count; ++i) all().free.acquire();
  }

 private:
  struct All {
    int count = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    std::counting_semaphore<> free{count};
    std::atomic<bool> ending = false;
  };
  static All& all() {
    static All& it = *new All;
    return it;
  }
};

// Libraries take down what they have set up in the reverse order, beginning with what the compilation that runs has
// just set up: whatever std::atexit calls comes too late. Objects of the first thread end before all of that.
struct EndOfProcess {
  ~EndOfProcess() {
    if (getpid() == gettid()) Turn::end();
  }
};
void wait_at_the_end() {
  static thread_local const EndOfProcess here;
  static_cast<void>(&here);
}

CUmodule load(const KernelText& text) {
  use_every_processor();
  const Turn turn;
  const std::string arch = arch_of(gpu());
  context().make_current();
  const std::filesystem::path file = cache_file(text, arch);
  CUmodule module = nullptr;
  // What is kept may be damaged or of another driver: then it is made again.
  const std::string kept = kept_code(file);
  if (!kept.empty() && cuModuleLoadData(&module, kept.data()) == CUDA_SUCCESS) return module;
  const std::string code = compile(text, arch);
  check(cuModuleLoadData(&module, code.data()), "cuModuleLoadData");
  keep_code(file, code);
  return module;
}

// Modules stay for the life of the process, as the programs that use them come and go.
std::shared_future<CUmodule> module_of(const KernelText& text) {
  static std::mutex mutex;
  static auto& modules = *new std::map<KernelText, std::shared_future<CUmodule>>;
  const std::lock_guard lock(mutex);
  auto& module = modules[text];
  wait_at_the_end();
  if (!module.valid()) module = std::async(std::launch::async, load, text).share();
  return module;
}

}  // namespace

namespace {
struct Collected {
  std::mutex mutex;
  std::set<KernelText> texts;
};
Collected& collected() {
  static auto& it = *new Collected;
  return it;
}
}  // namespace

std::vector<KernelText> collected_texts() {
  const std::lock_guard lock(collected().mutex);
  return {collected().texts.begin(), collected().texts.end()};
}

void beside(std::function<void()> work) {
  wait_at_the_end();
  std::thread([work = std::move(work)] {
    use_every_processor();
    try {
      const Turn turn;
      work();
    } catch (const Error&) {
    }
  }).detach();
}

Function::Function(const std::string& name, const KernelText& text, Begin begin) : state_(std::make_shared<State>()) {
  state_->name = name;
  if (gpu().present() && begin == Begin::when_started) {
    state_->text = text;
  } else if (gpu().present()) {
    state_->module = module_of(text);
  } else {
    const std::lock_guard lock(collected().mutex);
    collected().texts.insert(text);
  }
}

void Function::start(const Launch& launch, void** arguments) const {
  if (launch.grid == 0) return;
  if (launch.grid > 0x7fffffff) throw Error(cat("kernel ", state_->name, ": ", launch.grid, " blocks are too many."));
  const CUfunction function = state_->get();
  state_->allow(launch.shared);
  const auto grid = static_cast<unsigned>(launch.grid), block = static_cast<unsigned>(launch.block),
             grid_y = static_cast<unsigned>(launch.grid_y), grid_z = static_cast<unsigned>(launch.grid_z),
             block_y = static_cast<unsigned>(launch.block_y), shared = static_cast<unsigned>(launch.shared);
  const CUstream stream = context().stream();
  const bool small = launch.grid * launch.grid_y * launch.grid_z <= gpu().multiprocessors;
  if (!launch.cooperative && (launch.early || small))
    context().let_next_overlap(launch.early ? Context::Overlap::anywhere : Context::Overlap::where_alone);
  const CUresult status =
      launch.cooperative
          ? cuLaunchCooperativeKernel(function, grid, grid_y, grid_z, block, block_y, 1, shared, stream, arguments)
          : cuLaunchKernel(function, grid, grid_y, grid_z, block, block_y, 1, shared, stream, arguments, nullptr);
  if (status != CUDA_SUCCESS) throw Error(cat("kernel ", state_->name, " could not start: ", text_of(status), "."));
}

int Function::resident_blocks(int block, std::size_t shared) const {
  state_->allow(shared);
  int blocks = 0;
  check(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, state_->get(), block, shared),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  return blocks * gpu().multiprocessors;
}

std::string compile(const KernelText& text, const std::string& arch, Optimize optimize) {
  const NvrtcProgram program(text);
  const std::string architecture = "--gpu-architecture=" + arch;
  std::vector<const char*> options = {architecture.c_str(), "--std=c++17", "--device-as-default-execution-space",
                                      "--minimal"};
  if (optimize == Optimize::hardly) options.push_back("--Ofast-compile=max");
  const nvrtcResult status = nvrtcCompileProgram(program.get(), static_cast<int>(options.size()), options.data());
  if (status != NVRTC_SUCCESS)
    throw Error(cat(text.file, " does not compile for ", arch, ":\n", log_of(program.get()), "\ngenerated.cuh:\n",
                    text.generated));
  std::size_t size = 0;
  check(nvrtcGetCUBINSize(program.get(), &size), "nvrtcGetCUBINSize");
  std::string code(size, '\0');
  check(nvrtcGetCUBIN(program.get(), code.data()), "nvrtcGetCUBIN");
  return code;
}

const char* type_name(DType dtype) {
  switch (dtype) {
    case f64:
      return "double";
    case f32:
      return "float";
    case bf16:
      return "bf16";
    case f16:
      return "f16";
    case i8:
      return "signed char";
    case i32:
      return "int";
    case i64:
      return "i64";
    case u8:
      return "u8";
    default:
      return "bool_t";
  }
}

}  // namespace varve::cuda
