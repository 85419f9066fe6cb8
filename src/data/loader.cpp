#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/text.h"
#include "base/threads.h"
#include "data/loader_batch.h"
#include "varve/data.h"
#include "varve/interrupt.h"

namespace varve::data {
namespace {

// Until `holds` does. (Its own wait() would need a newer C++ run time than wheels for Python may ask for.)
template <class Holds>
void wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Holds holds) {
  while (!holds()) changed.wait_for(lock, std::chrono::hours(1));
}

// The same, but not longer than the host wants to wait.
template <class Holds>
void wait_unless_interrupted(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Holds holds) {
  constexpr auto kPatience = std::chrono::milliseconds(50);
  while (!holds()) {
    if (changed.wait_for(lock, kPatience) == std::cv_status::no_timeout) continue;
    lock.unlock();  // workers go on while the host thinks
    throw_if_interrupted();
    lock.lock();
  }
}

constexpr int kMostWorkers = 256, kMostAhead = 4096;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// Batches lie in a ring of `prefetch` slots, each at its index modulo that. Workers claim batches in order, but none
// that would overtake the taker by the whole ring; so a slot is free when it is claimed, and memory is bounded.
struct Loader::State {
  struct Slot {
    bool ready = false;
    Batch batch;
    std::exception_ptr error;
  };

  State(Dataset dataset, const LoaderOptions& options);
  ~State() { stop(); }

  void work();
  void stop();
  Slot take();       // the next batch, when there are workers
  Slot read_here();  // when there are none
  Slot read(std::int64_t index, ReadScratch& scratch) const;

  BatchReader reader;
  std::int64_t given, claimed;
  double waited = 0;
  ReadScratch scratch;  // of the calling thread
  std::mutex guard;
  std::condition_variable room, filled;
  std::vector<Slot> ring;
  std::atomic<bool> stopping = false;
  std::vector<std::thread> workers;
};

Loader::State::State(Dataset dataset, const LoaderOptions& options)
    : reader(std::move(dataset), options), given(options.skip), claimed(options.skip) {
  if (options.workers < 0 || options.workers > kMostWorkers)
    throw Error(cat("loader: expected 0 to ", kMostWorkers, " workers, got ", options.workers, "."));
  if (options.prefetch < 1 || options.prefetch > kMostAhead)
    throw Error(cat("loader: expected a prefetch of 1 to ", kMostAhead, " batches, got ", options.prefetch, "."));
  ring.resize(static_cast<std::size_t>(options.prefetch));
  try {
    for (int i = 0; i < options.workers; ++i) workers.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // The system allows no more threads: those that started do the work, or the calling thread when there are none.
  }
}

void Loader::State::work() {
  use_every_processor();
  ReadScratch mine;
  std::unique_lock lock(guard);
  while (true) {
    wait(room, lock, [&] {
      return stopping || claimed == reader.batches() || claimed - given < static_cast<std::int64_t>(ring.size());
    });
    if (stopping || claimed == reader.batches()) return;
    const std::int64_t index = claimed++;
    lock.unlock();
    Slot slot = read(index, mine);
    lock.lock();
    ring[static_cast<std::size_t>(index) % ring.size()] = std::move(slot);
    if (index == given) filled.notify_one();
  }
}

Loader::State::Slot Loader::State::read(std::int64_t index, ReadScratch& memory) const {
  try {
    return {true, reader.read(index, memory, stopping), nullptr};
  } catch (...) {
    return {true, {}, std::current_exception()};
  }
}

void Loader::State::stop() {
  {
    const std::lock_guard lock(guard);
    stopping = true;
  }
  room.notify_all();
  for (std::thread& worker : workers) worker.join();
}

Loader::State::Slot Loader::State::take() {
  Slot taken;
  {
    std::unique_lock lock(guard);
    Slot& slot = ring[static_cast<std::size_t>(given) % ring.size()];
    if (!slot.ready) {
      const auto start = std::chrono::steady_clock::now();
      wait_unless_interrupted(filled, lock, [&] { return slot.ready; });
      waited += seconds_since(start);
    }
    taken = std::exchange(slot, {});
    ++given;
  }
  room.notify_one();
  return taken;
}

Loader::State::Slot Loader::State::read_here() {
  const auto start = std::chrono::steady_clock::now();
  Slot slot = read(given++, scratch);
  waited += seconds_since(start);
  return slot;
}

Loader::Loader(Dataset dataset, LoaderOptions options) : state_(std::make_unique<State>(std::move(dataset), options)) {}
Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;

std::int64_t Loader::batches() const { return state_->reader.batches(); }
double Loader::waited_seconds() const { return state_->waited; }

bool Loader::next(Batch& batch) {
  batch = {};  // its memory can be read into while this waits
  if (state_->given == state_->reader.batches()) return false;
  State::Slot slot = state_->workers.empty() ? state_->read_here() : state_->take();
  if (slot.error) std::rethrow_exception(slot.error);
  batch = std::move(slot.batch);
  return true;
}

std::int64_t batch_count(std::int64_t samples, std::int64_t batch, bool drop_last) {
  if (samples < 0 || batch < 1)
    throw Error(
        cat("batch_count: expected 0 samples or more in batches of 1 or more, got ", samples, " and ", batch, "."));
  return samples / batch + (!drop_last && samples % batch != 0 ? 1 : 0);
}

}  // namespace varve::data
