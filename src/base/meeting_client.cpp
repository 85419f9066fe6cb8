#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include "base/meeting.h"
#include "base/meeting_words.h"
#include "base/text.h"
#include "varve/version.h"

namespace varve {

using namespace meeting;

struct MeetingClient::State {
  std::string address;
  int rank = 0;
  double silent_seconds = 10;
  Socket control, pulse;
  std::atomic<std::uint64_t> begun{0};
  std::mutex asking;         // one question at a time on `control`
  std::mutex sending;        // one frame at a time on `pulse`
  mutable std::mutex mutex;  // of what follows
  std::condition_variable changed;
  Clock::time_point heard = Clock::now();
  std::string failed, words;
  std::uint64_t words_at = 0;  // collectives that had begun
  bool told_is_called = false;
  std::function<void(const std::string&)> told;
  bool stopping = false;
  std::thread beats, news;

  bool post(const std::string& frame) {
    const std::lock_guard one(sending);
    return send_frame(pulse, frame);
  }
  void beat();
  void listen();
  void take(std::string_view frame);
  void note(const std::string& why);
  std::string server() const { return cat("the launcher, or rank 0, where the ranks meet (", address, "),"); }
};

namespace {

constexpr std::size_t kMostWords = 4000;

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Connected and let in.
Socket join(const HostPort& at, int rank, std::uint32_t kind, const std::string& key, double seconds) {
  const auto began = Clock::now();
  std::string answer;
  for (;;) {
    const double left = std::max(0.1, seconds - seconds_since(began));
    Socket socket = connect_to(at.host, at.port, std::min(kHelloSeconds, left));
    std::string frame(1, kHello);
    put_number(frame, static_cast<std::uint32_t>(rank));
    put_number(frame, kind);
    for (const std::string& text : {key, std::string(version()), cat(host_name(), ", process ", getpid())})
      put_text(frame, text);
    if (socket.open() && send_frame(socket, frame) && receive_frame(socket, answer, kHelloSeconds) && !answer.empty()) {
      if (answer[0] == kAccept) return socket;
      std::string_view rest = std::string_view(answer).substr(1);
      std::string why;
      take_text(rest, why);
      throw Error(cat("rank ", rank, " may not join the job that meets at ", at.host, ":", at.port, ": ", why, "."));
    }
    if (seconds_since(began) > seconds)
      throw Error(cat("rank ", rank, " found nobody at ", at.host, ":", at.port, " within ", seconds,
                      " seconds. Does the launcher, or rank 0, still run, and may this machine reach it?"));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

void MeetingClient::State::note(const std::string& why) {
  std::function<void(const std::string&)> call;
  std::string text;
  {
    const std::lock_guard lock(mutex);
    if (stopping) return;
    if (failed.empty()) failed = why;
    if (told && !told_is_called) {
      told_is_called = true;
      call = told;
      text = failed;
    }
  }
  changed.notify_all();
  if (call) call(text);
}

void MeetingClient::State::beat() {
  std::unique_lock lock(mutex);
  while (!stopping && failed.empty()) {
    lock.unlock();
    const auto sent_at = Clock::now();
    const bool sent = post(counted_frame(kBeat, begun));
    lock.lock();
    if (!sent) break;
    changed.wait_for(lock, std::chrono::duration<double>(kBeatSeconds), [&] { return stopping; });
    if (seconds_since(sent_at) > kSleptSeconds) heard = Clock::now();
    if (seconds_since(heard) <= silent_seconds) continue;
    const std::string why = cat(server(), " has been silent for ", static_cast<int>(seconds_since(heard)),
                                " seconds: it is stopped, or this machine is cut off from it");
    lock.unlock();
    note(why);
    lock.lock();
  }
}

void MeetingClient::State::listen() {
  std::string frame;
  while (receive_frame(pulse, frame)) take(frame);
  note(cat(server(), " is gone"));
}

void MeetingClient::State::take(std::string_view frame) {
  {
    const std::lock_guard lock(mutex);
    heard = Clock::now();
  }
  if (frame.empty()) return;
  const char word = frame[0];
  frame.remove_prefix(1);
  std::string why;
  std::uint64_t signal = 0;
  if (word == kFail && take_text(frame, why)) note(why);
  if (word == kSignal && take_count(frame, signal) && (signal == SIGINT || signal == SIGTERM))
    kill(getpid(), static_cast<int>(signal));
}

MeetingClient::MeetingClient(const std::string& address, int rank, const MeetingOptions& options, double seconds)
    : state_(std::make_unique<State>()) {
  const HostPort at = parse_address(address);
  state_->address = address;
  state_->rank = rank;
  state_->silent_seconds = options.silent_seconds;
  state_->control = join(at, rank, kControl, options.key, seconds);
  state_->pulse = join(at, rank, kPulse, options.key, seconds);
  state_->heard = Clock::now();
  state_->beats = std::thread([this] { state_->beat(); });
  state_->news = std::thread([this] { state_->listen(); });
}

MeetingClient::~MeetingClient() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  state_->beats.join();
  std::string bye = counted_frame(kBye, state_->begun);
  put_text(bye, state_->words_at == state_->begun ? state_->words : "");
  state_->post(bye);
  state_->pulse.shut_down();
  state_->news.join();
}

void MeetingClient::set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(state_->asking);
  if (!send_frame(state_->control, frame_of(kSet, {key, value})))
    throw Error(cat("rank ", state_->rank, ": ", state_->server(), " is gone."));
}

std::string MeetingClient::get(const std::string& key, double seconds, const std::string& whom) {
  const std::lock_guard lock(state_->asking);
  std::string answer, value;
  const bool asked = send_frame(state_->control, frame_of(kGet, {key}));
  const auto began = Clock::now();
  // In short waits: news of a rank that died ends them.
  while (asked) {
    pollfd wait{state_->control.fd(), POLLIN, 0};
    if (poll(&wait, 1, 200) > 0) {
      if (!receive_frame(state_->control, answer, kHelloSeconds)) break;
      std::string_view rest = std::string_view(answer).substr(answer.empty() ? 0 : 1);
      if (take_text(rest, value)) return value;
    }
    if (const std::string why = failure(); !why.empty()) throw Error(cat(why, "."));
    if (seconds_since(began) > seconds)
      throw Error(cat("rank ", state_->rank, " waited ", static_cast<int>(seconds), " seconds for ", whom,
                      ", which has not come. Were all of them started?"));
  }
  throw Error(cat("rank ", state_->rank, ": ", state_->server(), " is gone."));
}

std::string MeetingClient::own_host() const { return own_address(state_->control); }

void MeetingClient::on_failure(std::function<void(const std::string&)> told) {
  std::string why;
  {
    const std::lock_guard lock(state_->mutex);
    state_->told = std::move(told);
    why = state_->failed;
  }
  if (!why.empty()) state_->note(why);
}

std::string MeetingClient::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failed;
}

void MeetingClient::fail(const std::string& why) { state_->post(frame_of(kFail, {why})); }

void MeetingClient::begun(std::uint64_t collectives) { state_->begun = collectives; }

void MeetingClient::last_words(const std::string& why) {
  const std::lock_guard lock(state_->mutex);
  state_->words = why.substr(0, kMostWords);
  state_->words_at = state_->begun;
}

void MeetingClient::lost(const std::string& why) {
  std::string frame = counted_frame(kLost, state_->begun);
  put_text(frame, why);
  state_->post(frame);
}

}  // namespace varve
