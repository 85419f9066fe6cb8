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
constexpr int kVerdictTries = 60;  // of 50 ms
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
  bool stopping = false, idle = true;
  double waited = 0, busy = 0;
  std::thread thread;

  void work();
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
      if (failed.empty())
        done.wait_for(lock, std::chrono::hours(1));
      else if (seconds_since(failed_at) < kGraceSeconds)
        done.wait_for(lock, std::chrono::milliseconds(50));
      else
        return;
    }
  }
};

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
    lock.unlock();
    std::string error;
    const auto began = Clock::now();
    try {
      if (!spoilt) next(*opened.communicator);
    } catch (const BrokenConnection& broken) {
      error = broken.what();
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

void Communication::check_same(std::uint64_t hash) {
  post([hash](Communicator& all) {
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

void Communication::note(const std::string& key, const std::string& value) {
  if (state_->opened.note) state_->opened.note(key, value);
}

void Communication::drain() {
  std::unique_lock lock(state_->mutex);
  state_->wait_until(lock, [&] { return state_->finished == state_->given; });
}

std::string Communication::engine() const { return state_->opened.communicator->engine(); }

double Communication::seconds_waited() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waited;
}

double Communication::seconds_busy() const {
  const std::lock_guard lock(state_->mutex);
  return state_->busy;
}

}  // namespace varve::backend
