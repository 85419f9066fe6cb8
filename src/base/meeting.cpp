#include "base/meeting.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "base/sockets.h"
#include "base/text.h"
#include "varve/version.h"

namespace varve {
namespace {

using Clock = std::chrono::steady_clock;

// The first byte of a frame.
enum Word : char {
  kHello = 'h',   // rank, kind, key, version, who
  kAccept = 'a',  // you are in
  kRefuse = 'r',  // you are not, and why
  kSet = 's',
  kGet = 'g',
  kValue = 'v',
  kBeat = 'b',
  kFail = 'f',  // from a rank: what went wrong; to all: the same
  kBye = 'q',   // ends in order
};
constexpr std::uint32_t kControl = 0, kPulse = 1;
constexpr double kHelloSeconds = 5, kBeatSeconds = 1;

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

std::string frame_of(Word word, std::initializer_list<std::string_view> texts = {}) {
  std::string frame(1, word);
  for (const std::string_view text : texts) put_text(frame, text);
  return frame;
}

// As long for a wrong key as for the right one.
bool same_key(const std::string& a, const std::string& b) {
  unsigned char differs = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    differs |= static_cast<unsigned char>(a[i] ^ b[b.empty() ? 0 : i % b.size()]);
  return !differs;
}

}  // namespace

struct MeetingServer::State {
  struct Connection {
    Socket socket;
    int rank = -1;  // -1: has not said hello
    std::uint32_t kind = kControl;
    std::string who;      // "host, process 123"
    std::string in, out;  // bytes not yet read as frames; bytes not yet sent
    std::string wanted;   // key of a get that waits
    bool waits = false, gone = false, bye = false;
    Clock::time_point heard = Clock::now();
  };

  State(const std::string& host, int port, MeetingOptions given)
      : options(std::move(given)), listening(listen_on(host, port)), wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake.open()) throw Error("the meeting cannot be opened: the system has no descriptors left.");
    thread = std::thread([this] { serve(); });
  }
  ~State() {
    stopping = true;
    rouse();
    thread.join();
  }

  void rouse() const {
    const std::uint64_t one = 1;
    static_cast<void>(!write(wake.fd(), &one, sizeof(one)));
  }

  void serve();
  void accept_new();
  void read(Connection& connection);
  void take(Connection& connection, std::string_view frame);
  void hello(Connection& connection, std::string_view frame);
  void refuse(Connection& connection, const std::string& why);
  void answer_waiting();
  void look_for_the_silent();
  void leave(Connection& connection);
  void announce();
  static void post(Connection& connection, std::string_view frame) { put_text(connection.out, frame); }
  static void flush(Connection& connection);
  void note(const std::string& why) {
    const std::lock_guard lock(mutex);
    if (failed.empty()) failed = why;
  }

  const MeetingOptions options;
  Socket listening, wake;
  std::list<Connection> connections;
  std::map<std::string, std::string> values;
  mutable std::mutex mutex;  // of `values`, which this thread alone changes, and `failed`
  std::string failed;
  bool announced = false;
  std::atomic<bool> stopping{false};
  std::thread thread;
};

void MeetingServer::State::serve() {
  while (!stopping) {
    std::vector<pollfd> waits{{listening.fd(), POLLIN, 0}, {wake.fd(), POLLIN, 0}};
    for (const Connection& c : connections)
      waits.push_back({c.socket.fd(), static_cast<short>(POLLIN | (c.out.empty() ? 0 : POLLOUT)), 0});
    poll(waits.data(), waits.size(), 500);
    std::uint64_t counted = 0;
    static_cast<void>(!::read(wake.fd(), &counted, sizeof(counted)));
    std::size_t at = 2;
    for (Connection& c : connections) {
      const short events = waits[at++].revents;
      if (events & (POLLIN | POLLHUP | POLLERR)) read(c);
      if (events & POLLOUT) flush(c);
    }
    if (waits[0].revents & POLLIN) accept_new();
    look_for_the_silent();
    answer_waiting();
    for (Connection& c : connections)
      if (c.gone) leave(c);
    announce();
    connections.remove_if([](const Connection& c) { return c.gone; });
  }
}

void MeetingServer::State::accept_new() {
  const std::size_t most = 4 * static_cast<std::size_t>(options.ranks) + 16;
  for (Socket socket = accept_from(listening); socket.open(); socket = accept_from(listening)) {
    if (connections.size() >= most) continue;  // closed again
    connections.emplace_back();
    connections.back().socket = std::move(socket);
  }
}

void MeetingServer::State::read(Connection& c) {
  char bytes[4096];
  bool ended = false;  // after what came before it
  while (!ended) {
    const ssize_t got = recv(c.socket.fd(), bytes, sizeof(bytes), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    ended = got <= 0;
    if (!ended) c.in.append(bytes, static_cast<std::size_t>(got));
    if (c.in.size() > kMostFrame + 4 || (c.rank < 0 && c.in.size() > 4096)) ended = true;
  }
  std::size_t used = 0;
  for (;;) {
    std::string_view rest = std::string_view(c.in).substr(used);
    std::uint32_t length = 0;
    if (!take_number(rest, length) || length > rest.size()) break;
    take(c, rest.substr(0, length));
    used += 4 + length;
  }
  c.in.erase(0, used);
  if (ended) c.gone = true;
}

void MeetingServer::State::refuse(Connection& c, const std::string& why) {
  post(c, frame_of(kRefuse, {why}));
  flush(c);
  c.gone = true;
}

void MeetingServer::State::hello(Connection& c, std::string_view frame) {
  std::uint32_t rank = 0, kind = 0;
  std::string key, version, who;
  if (!take_number(frame, rank) || !take_number(frame, kind) || !take_text(frame, key) || !take_text(frame, version) ||
      !take_text(frame, who) || !same_key(key, options.key))
    return refuse(c, "the key of this job is another one");
  if (version != varve::version())
    return refuse(c, cat("it is of Varve ", varve::version(), ", this rank of ", version));
  if (rank >= static_cast<std::uint32_t>(options.ranks))
    return refuse(c, cat("the job has ", options.ranks, " ranks, and this is rank ", rank));
  for (const Connection& other : connections)
    if (&other != &c && other.rank == static_cast<int>(rank) && other.kind == kind && !other.gone)
      return refuse(c, cat("there is a rank ", rank, " already: ", other.who));
  c.rank = static_cast<int>(rank);
  c.kind = kind;
  c.who = printable(who);
  post(c, frame_of(kAccept));
  flush(c);
}

void MeetingServer::State::take(Connection& c, std::string_view frame) {
  if (frame.empty() || c.gone) return;
  c.heard = Clock::now();
  const char word = frame[0];
  frame.remove_prefix(1);
  std::string key, value;
  if (c.rank < 0) {
    if (word == kHello) return hello(c, frame);
    c.gone = true;
  } else if (word == kSet && take_text(frame, key) && take_text(frame, value)) {
    constexpr std::size_t kMostValues = 1 << 20;
    const std::lock_guard lock(mutex);
    if (values.size() < kMostValues) values[key] = value;
  } else if (word == kGet && take_text(frame, key)) {
    c.wanted = key;
    c.waits = true;
  } else if (word == kFail && take_text(frame, value)) {
    note(cat("rank ", c.rank, " (", c.who, ") failed: ", value));
  } else if (word == kBye) {
    c.bye = true;
  }
}

void MeetingServer::State::answer_waiting() {
  for (Connection& c : connections) {
    if (!c.waits) continue;
    const auto known = values.find(c.wanted);
    if (known == values.end()) continue;
    c.waits = false;
    post(c, frame_of(kValue, {known->second}));
    flush(c);
  }
}

void MeetingServer::State::look_for_the_silent() {
  for (Connection& c : connections) {
    if (c.rank < 0 && seconds_since(c.heard) > kHelloSeconds) c.gone = true;
    if (c.rank >= 0 && c.kind == kPulse && !c.bye && !c.gone && seconds_since(c.heard) > options.silent_seconds)
      note(cat("rank ", c.rank, " (", c.who, ") has been silent for ", static_cast<int>(seconds_since(c.heard)),
               " seconds: it is stopped, or cut off from the others"));
  }
}

void MeetingServer::State::leave(Connection& c) {
  if (c.rank >= 0 && c.kind == kPulse && !c.bye)
    note(cat("rank ", c.rank, " (", c.who, ") has died: killed, out of memory, or crashed"));
}

void MeetingServer::State::announce() {
  const std::string why = [&] {
    const std::lock_guard lock(mutex);
    return failed;
  }();
  if (why.empty() || announced) return;
  announced = true;
  for (Connection& c : connections) {
    if (c.rank < 0 || c.kind != kPulse || c.gone) continue;
    post(c, frame_of(kFail, {why}));
    flush(c);
  }
}

void MeetingServer::State::flush(Connection& c) {
  while (!c.out.empty()) {
    const ssize_t sent = send(c.socket.fd(), c.out.data(), c.out.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (sent <= 0) {
      c.gone = true;
      return;
    }
    c.out.erase(0, static_cast<std::size_t>(sent));
  }
}

MeetingServer::MeetingServer(const std::string& host, int port, MeetingOptions options)
    : state_(std::make_unique<State>(host, port, std::move(options))) {}
MeetingServer::~MeetingServer() = default;
int MeetingServer::port() const { return port_of(state_->listening); }
std::string MeetingServer::failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failed;
}
std::string MeetingServer::value(const std::string& key) const {
  const std::lock_guard lock(state_->mutex);
  const auto known = state_->values.find(key);
  return known == state_->values.end() ? "" : known->second;
}
void MeetingServer::fail(const std::string& why) {
  state_->note(why);
  state_->rouse();
}

// ---- a rank's part

struct MeetingClient::State {
  std::string address;
  int rank = 0;
  Socket control, pulse;
  std::mutex asking;         // one question at a time on `control`
  std::mutex sending;        // one frame at a time on `pulse`
  mutable std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::string failed;
  bool told_is_called = false;
  std::function<void(const std::string&)> told;
  bool stopping = false;
  std::thread beats, news;

  void beat();
  void listen();
  void note(const std::string& why);
};

namespace {

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
    Socket socket = connect_to(at.host, at.port);
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
  while (!stopping) {
    lock.unlock();
    bool sent = false;
    {
      const std::lock_guard one(sending);
      sent = send_frame(pulse, std::string(1, kBeat));
    }
    lock.lock();
    if (!sent) break;
    changed.wait_for(lock, std::chrono::duration<double>(kBeatSeconds), [&] { return stopping; });
  }
}

void MeetingClient::State::listen() {
  std::string frame;
  while (receive_frame(pulse, frame)) {
    if (frame.empty() || frame[0] != kFail) continue;
    std::string_view rest = std::string_view(frame).substr(1);
    std::string why;
    if (take_text(rest, why)) note(why);
  }
  note(cat("the launcher, or rank 0, where the ranks meet (", address, ") is gone"));
}

MeetingClient::MeetingClient(const std::string& address, int rank, const MeetingOptions& options, double seconds)
    : state_(std::make_unique<State>()) {
  const HostPort at = parse_address(address);
  state_->address = address;
  state_->rank = rank;
  state_->control = join(at, rank, kControl, options.key, seconds);
  state_->pulse = join(at, rank, kPulse, options.key, seconds);
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
  send_frame(state_->pulse, std::string(1, kBye));
  state_->pulse.shut_down();
  state_->news.join();
}

void MeetingClient::set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(state_->asking);
  if (!send_frame(state_->control, frame_of(kSet, {key, value})))
    throw Error(cat("rank ", state_->rank, ": the place where the ranks meet (", state_->address, ") is gone."));
}

std::string MeetingClient::get(const std::string& key, double seconds) {
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
      throw Error(cat("rank ", state_->rank, " waited ", static_cast<int>(seconds),
                      " seconds for another rank, which has not come. Were all of them started?"));
  }
  throw Error(cat("rank ", state_->rank, ": the place where the ranks meet (", state_->address, ") is gone."));
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

void MeetingClient::fail(const std::string& why) {
  const std::lock_guard one(state_->sending);
  send_frame(state_->pulse, frame_of(kFail, {why}));
}

}  // namespace varve
