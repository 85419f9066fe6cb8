#include "backend/communicator.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/text.h"
#include "base/threads.h"
#include "varve/error.h"

namespace varve::backend {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kVerdictTries = 100;  // of 50 ms: deaths are known at once, who is late after two seconds
constexpr double kGraceSeconds = 1;
double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

std::function<Opened()>& loader() {
  static auto& installed = *new std::function<Opened()>;
  return installed;
}

std::mutex& opening() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

std::unique_ptr<Communication>& instance() {
  static std::unique_ptr<Communication> one;
  return one;
}

// Says how many collectives of all ranks have begun: a rank that has begun fewer than another is waited for. Messages
// between two ranks do not count.
class Counted final : public Communicator {
 public:
  Counted(std::unique_ptr<Communicator> engine, std::function<void(std::uint64_t)> begun)
      : engine_(std::move(engine)), begun_(std::move(begun)) {}
  std::string engine() const override { return engine_->engine(); }
  int rank() const override { return engine_->rank(); }
  int size() const override { return engine_->size(); }
  void all_reduce(void* data, std::size_t count, DType dtype, Combine combine) override {
    counted().all_reduce(data, count, dtype, combine);
  }
  void all_gather(const void* in, void* out, std::size_t bytes) override { counted().all_gather(in, out, bytes); }
  void sum_scatter(const void* in, void* out, std::size_t count, DType dtype) override {
    counted().sum_scatter(in, out, count, dtype);
  }
  void all_to_all(const void* in, void* out, std::size_t bytes) override { counted().all_to_all(in, out, bytes); }
  void broadcast(void* data, std::size_t bytes, int root) override { counted().broadcast(data, bytes, root); }
  void send(const void* data, std::size_t bytes, int to, int tag) override { engine_->send(data, bytes, to, tag); }
  void receive(void* data, std::size_t bytes, int from, int tag) override { engine_->receive(data, bytes, from, tag); }
  int receive_any(void* data, std::size_t bytes, int tag) override { return engine_->receive_any(data, bytes, tag); }
  void barrier() override { counted().barrier(); }
  void abort() override { engine_->abort(); }
  double sent_bytes() const override { return engine_->sent_bytes(); }

 private:
  Communicator& counted() {
    begun_(++count_);
    return *engine_;
  }
  const std::unique_ptr<Communicator> engine_;
  const std::function<void(std::uint64_t)> begun_;
  std::uint64_t count_ = 0;
};

}  // namespace

void set_communicator_loader(std::function<Opened()> given) { loader() = std::move(given); }

struct Communication::State {
  Opened opened;
  std::mutex mutex;
  std::condition_variable posted, done;
  std::deque<Work> waiting;
  Ticket given = 0, finished = 0;
  std::string failed;
  Clock::time_point failed_at{};
  bool stopping = false, idle = true, asked = false;
  Clock::time_point began{};  // of what is under way
  double waited = 0, busy = 0;
  std::thread thread;

  void work();
  void watch(std::unique_lock<std::mutex>& lock);
  void spoil(const std::string& why) {  // the mutex is held
    if (!failed.empty()) return;
    failed = why;
    failed_at = Clock::now();
    done.notify_all();
  }
  // Until `holds`; or, after a failure, for a second more: an engine may not wake up from a connection that broke. Its
  // connections are shut down by then, so that nothing is written behind the back of who goes on.
  template <class Holds>
  void wait_until(std::unique_lock<std::mutex>& lock, Holds holds) {
    while (!holds()) {
      if (failed.empty()) {
        done.wait_for(lock, std::chrono::seconds(5));
        watch(lock);
      } else if (seconds_since(failed_at) < kGraceSeconds)
        done.wait_for(lock, std::chrono::milliseconds(50));
      else
        return;
    }
  }
};

// MPI waits for ever. Whose fault that is comes as the failure.
void Communication::State::watch(std::unique_lock<std::mutex>& lock) {
  constexpr double kMore = 5;  // an engine with a deadline of its own comes first
  if (idle || asked || !opened.lost || seconds_since(began) < opened.deadline_seconds + kMore) return;
  asked = true;
  lock.unlock();
  opened.lost(cat("the others have not come for ", static_cast<int>(opened.deadline_seconds), " seconds"));
  lock.lock();
}

void Communication::State::work() {
  use_every_processor();
  std::unique_lock lock(mutex);
  for (;;) {
    while (!stopping && waiting.empty()) posted.wait_for(lock, std::chrono::hours(1));
    if (waiting.empty()) return;
    Work next = std::move(waiting.front());
    waiting.pop_front();
    const bool spoilt = !failed.empty();
    idle = false;
    began = Clock::now();
    lock.unlock();
    std::string error;
    try {
      if (!spoilt) next(*opened.communicator);
    } catch (const BrokenConnection& broken) {
      error = broken.what();
      if (opened.lost) opened.lost(error);
      for (int i = 0; i < kVerdictTries && opened.verdict && opened.verdict().empty(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (opened.verdict && !opened.verdict().empty()) error = opened.verdict() + ".";
      opened.communicator->abort();
    } catch (const std::exception& caught) {
      error = caught.what();
      if (opened.tell) opened.tell(error);
      opened.communicator->abort();
    }
    next = nullptr;
    lock.lock();
    busy += seconds_since(began);
    if (!error.empty()) spoil(error);
    idle = true;
    ++finished;
    done.notify_all();
  }
}

Communication::Communication(std::unique_ptr<State> state) : state_(std::move(state)) {
  state_->thread = std::thread([state = state_.get()] { state->work(); });
  if (state_->opened.listen)
    state_->opened.listen([this](const std::string& why) {
      {
        const std::lock_guard lock(state_->mutex);
        state_->spoil(why + ".");
      }
      state_->opened.communicator->abort();
    });
}

Communication::~Communication() {
  if (state_->opened.listen) state_->opened.listen({});
  bool stuck = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->wait_until(lock, [&] { return state_->idle; });
    stuck = !state_->idle;
  }
  state_->posted.notify_all();
  if (stuck) {  // the process ends: what the engine still looks at stays
    state_->thread.detach();
    static_cast<void>(state_.release());
  } else {
    state_->thread.join();
  }
}

bool Communication::is_open() {
  const std::lock_guard lock(opening());
  return instance() != nullptr;
}

Communication& Communication::get() {
  const std::lock_guard lock(opening());
  if (!instance()) {
    if (!loader()) throw Error("distributed: no engine can be loaded in this program.");
    auto state = std::make_unique<State>();
    state->opened = loader()();
    if (state->opened.begun)
      state->opened.communicator =
          std::make_unique<Counted>(std::move(state->opened.communicator), state->opened.begun);
    instance() = std::unique_ptr<Communication>(new Communication(std::move(state)));
  }
  return *instance();
}

Communication::Ticket Communication::post(Work work) {
  const std::lock_guard lock(state_->mutex);
  state_->waiting.push_back(std::move(work));
  state_->posted.notify_one();
  return ++state_->given;
}

void Communication::wait(Ticket ticket) {
  std::unique_lock lock(state_->mutex);
  if (state_->finished < ticket) {
    const auto began = Clock::now();
    state_->wait_until(lock, [&] { return state_->finished >= ticket; });
    state_->waited += seconds_since(began);
  }
  if (!state_->failed.empty()) throw Error(state_->failed);
}

Communication::Ticket Communication::check_same(std::uint64_t hash) {
  return post([hash](Communicator& all) {
    std::vector<std::uint64_t> hashes(static_cast<std::size_t>(all.size()));
    all.all_gather(&hash, hashes.data(), sizeof(hash));
    std::string others;
    for (std::size_t r = 0; r < hashes.size(); ++r)
      if (hashes[r] != hashes[0]) others += cat(others.empty() ? "" : ", ", r);
    if (!others.empty())
      throw Error(cat("the ranks do not run the same program: rank ", others,
                      " exchanges other values than rank 0. Start all of them with the same network, shapes and "
                      "settings, and let all of them read the same values."));
  });
}

void Communication::fail(const std::string& why) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->failed.empty()) return;  // the others know, or told us
    state_->spoil(why);
  }
  if (state_->opened.tell) state_->opened.tell(why);
  state_->opened.communicator->abort();
}

void Communication::last_words(const std::string& why) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->failed.empty()) return;  // the others know, or told us
  }
  if (state_->opened.last_words) state_->opened.last_words(why);
}

void Communication::note(const std::string& key, const std::string& value) {
  if (state_->opened.note) state_->opened.note(key, value);
}

void Communication::drain() {
  std::unique_lock lock(state_->mutex);
  state_->wait_until(lock, [&] { return state_->finished == state_->given; });
}

std::string Communication::engine() const { return state_->opened.communicator->engine(); }

std::string Communication::host() const { return state_->opened.host; }

std::string Communication::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failed;
}

double Communication::seconds_waited() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waited;
}

double Communication::seconds_busy() const {
  const std::lock_guard lock(state_->mutex);
  return state_->busy;
}

double Communication::sent_bytes() const { return state_->opened.communicator->sent_bytes(); }

std::int64_t Communication::messages() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<std::int64_t>(state_->finished);
}

}  // namespace varve::backend
