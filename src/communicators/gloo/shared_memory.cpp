// The memory that the ranks of one machine share, and the threads that move values through it.
#include "shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/meeting.h"
#include "base/text.h"
#include "base/threads.h"

namespace varve::gloo_ranks {
namespace {

constexpr int kMostLanes = 4;
constexpr std::size_t kMostMemory = std::size_t{48} << 20;  // containers often have 64 MB of /dev/shm
constexpr std::size_t kShared = std::size_t{1} << 18;       // bytes of a sum that several lanes are worth waking for

// A file in memory, and where this process sees it.
std::byte* map(int file, std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// Without room for it, writing would end the process.
std::byte* create(const std::string& name, std::size_t bytes) {
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  std::byte* memory = posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0 ? map(file, bytes) : nullptr;
  close(file);
  if (!memory) shm_unlink(name.c_str());
  return memory;
}

std::byte* find(const std::string& name, std::size_t bytes) {
  const int file = shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (file < 0) return nullptr;
  std::byte* memory = map(file, bytes);
  close(file);
  return memory;
}

// As many as this process has threads, as far as there is room.
int lanes_here(int size) {
  return std::clamp(static_cast<int>(kMostMemory / Lane::bytes(size)), 1, std::clamp(threads(), 1, kMostLanes));
}

}  // namespace

std::unique_ptr<SharedMemory> SharedMemory::open(const backend::Joining& joining) {
  if (joining.local_size != joining.size) return nullptr;
  joining.set(cat("lanes/", joining.rank), cat(lanes_here(joining.size)));
  int lanes = kMostLanes;
  for (int r = 0; r < joining.size; ++r) lanes = std::min(lanes, std::stoi(joining.get(cat("lanes/", r))));
  const std::size_t bytes = static_cast<std::size_t>(lanes) * Lane::bytes(joining.size);
  std::byte* memory = nullptr;
  std::string name;
  if (joining.rank == 0) {
    name = "/varve-" + random_key();
    memory = create(name, bytes);
    joining.set("memory", memory ? name : "none");
  } else {
    name = joining.get("memory");
    if (name != "none") memory = find(name, bytes);
  }
  joining.set(cat("memory/", joining.rank), memory ? "mapped" : "none");
  bool all = true;
  for (int r = 0; r < joining.size; ++r) all = joining.get(cat("memory/", r)) == "mapped" && all;
  // Nobody opens it any more: gone when the last rank ends, however it ends.
  if (joining.rank == 0 && memory) shm_unlink(name.c_str());
  if (!all && memory) munmap(memory, bytes);
  if (!all) return nullptr;
  return std::unique_ptr<SharedMemory>(new SharedMemory(memory, lanes, joining));
}

SharedMemory::SharedMemory(std::byte* memory, int lanes, const backend::Joining& joining)
    : memory_(memory),
      bytes_(static_cast<std::size_t>(lanes) * Lane::bytes(joining.size)),
      tasks_(static_cast<std::size_t>(lanes)) {
  for (int i = 0; i < lanes; ++i)
    lanes_.push_back(std::make_unique<Lane>(memory + static_cast<std::size_t>(i) * Lane::bytes(joining.size),
                                            joining.rank, joining.size, joining.deadline_seconds));
  for (std::size_t i = 1; i < lanes_.size(); ++i) threads_.emplace_back([this, i] { work(i); });
}

SharedMemory::~SharedMemory() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  munmap(memory_, bytes_);
}

void SharedMemory::work(std::size_t lane) {
  use_every_processor();
  std::unique_lock lock(mutex_);
  for (;;) {
    posted_.wait(lock, [&] { return stopping_ || tasks_[lane]; });
    if (!tasks_[lane]) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      tasks_[lane]();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    tasks_[lane] = nullptr;
    if (error && !failed_) failed_ = error;
    done_.notify_one();
  }
}

void SharedMemory::all_reduce(void* data, std::size_t count, std::size_t element, Reduce reduce) {
  const std::size_t lanes = count * element < kShared ? 1 : lanes_.size();
  const auto reduce_part = [=, this](std::size_t i) {
    const std::size_t begin = count * i / lanes, end = count * (i + 1) / lanes;
    lanes_[i]->all_reduce(static_cast<std::byte*>(data) + begin * element, end - begin, element, reduce);
  };
  if (lanes == 1) return reduce_part(0);
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 1; i < lanes; ++i) tasks_[i] = [=] { reduce_part(i); };
  }
  posted_.notify_all();
  std::exception_ptr error;
  try {
    reduce_part(0);
  } catch (...) {
    error = std::current_exception();
  }
  std::unique_lock lock(mutex_);
  done_.wait(lock,
             [&] { return std::none_of(tasks_.begin(), tasks_.end(), [](const auto& task) { return bool(task); }); });
  if (!error) error = failed_;
  if (error) std::rethrow_exception(error);
}

void SharedMemory::abort() {
  for (const auto& lane : lanes_) lane->abort();
}

}  // namespace varve::gloo_ranks
