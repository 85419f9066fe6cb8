#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/meeting.h"
#include "base/meeting_words.h"
#include "base/text.h"
#include "varve/version.h"

namespace varve {

using namespace meeting;

namespace {

// News that says more may come a moment later: an exit code, a death.
constexpr double kLeftSeconds = 1, kBlameSeconds = 2;

// Errors end with a full stop, which comes once, at the end of the whole.
std::string without_stop(std::string text) {
  while (!text.empty() && (text.back() == '.' || text.back() == '\n')) text.pop_back();
  return text;
}

// As long for a wrong key as for the right one.
bool same_key(const std::string& a, const std::string& b) {
  unsigned char differs = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    differs |= static_cast<unsigned char>(a[i] ^ b[b.empty() ? 0 : i % b.size()]);
  return !differs;
}

}  // namespace

std::string random_key() {
  std::ifstream source("/dev/urandom", std::ios::binary);
  std::array<unsigned char, 16> bytes{};
  if (!source.read(reinterpret_cast<char*>(bytes.data()), bytes.size()))
    throw Error("ranks: /dev/urandom cannot be read, so that the job would have no key.");
  std::string text;
  for (const unsigned char byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

struct MeetingServer::State {
  struct Connection {
    Socket socket;
    int rank = -1;  // -1: has not said hello
    std::uint32_t kind = kControl;
    std::string in, out;  // bytes not yet read as frames; bytes not yet sent
    std::string wanted;   // key of a get that waits
    bool waits = false, gone = false;
    Clock::time_point heard = Clock::now();
  };
  // What is known of a rank, also after it has gone.
  struct Member {
    std::string who;  // "host, process 123"
    bool joined = false, left = false;
    std::string words, how;   // the error it ended with, as it says; how it ended, as the launcher says
    std::uint64_t begun = 0;  // collectives
    Clock::time_point left_at{};
  };
  struct Loss {
    int rank = -1;  // whose connection broke; -1: none has
    std::string why;
    Clock::time_point at{};
  };

  State(const std::string& host, int port, MeetingOptions given)
      : options(std::move(given)),
        listening(listen_on(host, port)),
        wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        members(static_cast<std::size_t>(options.ranks)) {
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
  void wait_and_read();
  void accept_new();
  void make_room();
  void read(Connection& connection);
  void take(Connection& connection, std::string_view frame);
  void take_from(Member& member, int rank, char word, std::string_view frame);
  void hello(Connection& connection, std::string_view frame);
  void refuse(Connection& connection, const std::string& why);
  void answer_waiting();
  void look_for_the_silent();
  void hear_who_ended();
  void look_for_the_left();
  void look_for_the_late();
  void leave(Connection& connection);
  void announce();
  static void post(Connection& connection, std::string_view frame) { put_text(connection.out, frame); }
  static void flush(Connection& connection);
  void note(const std::string& why, int rank) {
    const std::lock_guard lock(mutex);
    if (!failed.empty()) return;
    failed = why;
    blamed = rank;
  }
  std::string failure() const {
    const std::lock_guard lock(mutex);
    return failed;
  }
  Member& member(int rank) { return members[static_cast<std::size_t>(rank)]; }
  std::string named(int rank) const {
    const std::string& who = members[static_cast<std::size_t>(rank)].who;
    return who.empty() ? cat("rank ", rank) : cat("rank ", rank, " (", who, ")");
  }

  const MeetingOptions options;
  Socket listening, wake;
  std::list<Connection> connections;
  std::map<std::string, std::string> values;
  mutable std::mutex mutex;  // of `values`, which this thread alone changes, and of what the launcher reads and writes
  std::string failed;
  int blamed = -1;
  std::vector<std::pair<int, std::string>> ended;  // ranks and how, as the launcher says
  std::set<int> present;                           // ranks that have joined and not left
  int signal = 0;                                  // to pass on
  std::vector<Member> members;
  Loss loss;
  bool announced = false;
  std::atomic<bool> stopping{false};
  std::thread thread;
};

void MeetingServer::State::serve() {
  auto looked = Clock::now();
  while (!stopping) {
    wait_and_read();
    if (seconds_since(looked) > kSleptSeconds)
      for (Connection& c : connections) c.heard = Clock::now();
    looked = Clock::now();
    look_for_the_silent();
    answer_waiting();
    for (Connection& c : connections)
      if (c.gone) leave(c);
    look_for_the_left();
    look_for_the_late();
    announce();
    connections.remove_if([](const Connection& c) { return c.gone; });
  }
}

void MeetingServer::State::wait_and_read() {
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
}

void MeetingServer::State::accept_new() {
  const std::size_t most = 4 * static_cast<std::size_t>(options.ranks) + 16;
  for (Socket socket = accept_from(listening); socket.open(); socket = accept_from(listening)) {
    if (connections.size() >= most) make_room();
    connections.emplace_back();
    connections.back().socket = std::move(socket);
  }
}

// A rank says hello at once: of those who have not, the first has waited longest.
void MeetingServer::State::make_room() {
  const auto stranger = std::find_if(connections.begin(), connections.end(), [](auto& c) { return c.rank < 0; });
  if (stranger != connections.end()) connections.erase(stranger);
}

void MeetingServer::State::read(Connection& c) {
  char bytes[4096];
  bool ended_here = false;  // after what came before it
  while (!ended_here) {
    const ssize_t got = recv(c.socket.fd(), bytes, sizeof(bytes), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    ended_here = got <= 0;
    if (!ended_here) c.in.append(bytes, static_cast<std::size_t>(got));
    if (c.in.size() > kMostFrame + 4 || (c.rank < 0 && c.in.size() > 4096)) ended_here = true;
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
  if (ended_here) c.gone = true;
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
  if (rank >= static_cast<std::uint32_t>(options.ranks))
    return refuse(c, cat("the job has ", options.ranks, " ranks, and this is rank ", rank));
  if (version != varve::version()) {
    note(cat("rank ", rank, " (", printable(who), ") is of Varve ", printable(version), ", where the ranks meet is ",
             varve::version(), ": install the same version everywhere"),
         static_cast<int>(rank));
    return refuse(c, cat("it is of Varve ", varve::version(), ", this rank of ", version));
  }
  for (const Connection& other : connections)
    if (&other != &c && other.rank == static_cast<int>(rank) && other.kind == kind && !other.gone)
      return refuse(c, cat("there is a rank ", rank, " already: ", member(other.rank).who));
  if (const std::string why = failure(); !why.empty()) return refuse(c, cat("the job has failed: ", why));
  c.rank = static_cast<int>(rank);
  c.kind = kind;
  member(c.rank).who = printable(who);
  if (kind == kPulse) {
    member(c.rank).joined = true;
    const std::lock_guard lock(mutex);
    present.insert(c.rank);
  }
  post(c, frame_of(kAccept));
  flush(c);
}

void MeetingServer::State::take(Connection& c, std::string_view frame) {
  if (frame.empty() || c.gone) return;
  const char word = frame[0];
  frame.remove_prefix(1);
  std::string key, value;
  if (c.rank < 0) {
    if (word == kHello) return hello(c, frame);
    c.gone = true;
    return;
  }
  c.heard = Clock::now();
  if (word == kSet && take_text(frame, key) && take_text(frame, value)) {
    constexpr std::size_t kMostValues = 1 << 20;
    const std::lock_guard lock(mutex);
    if (values.size() < kMostValues) values[key] = value;
  } else if (word == kGet && take_text(frame, key)) {
    c.wanted = key;
    c.waits = true;
  } else if (c.kind == kPulse) {
    if (word == kBeat) post(c, frame_of(kBeat));
    take_from(member(c.rank), c.rank, word, frame);
    flush(c);
  }
}

void MeetingServer::State::take_from(Member& from, int rank, char word, std::string_view frame) {
  std::string why;
  if (word == kBeat) {
    take_count(frame, from.begun);
  } else if (word == kFail && take_text(frame, why)) {
    note(cat(named(rank), " failed: ", without_stop(printable(why))), rank);
  } else if (word == kLost && take_count(frame, from.begun) && take_text(frame, why)) {
    if (loss.rank < 0) loss = {rank, printable(why), Clock::now()};
  } else if (word == kBye && take_count(frame, from.begun) && take_text(frame, from.words)) {
    from.words = printable(from.words);
    from.left = true;
    from.left_at = Clock::now();
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
    if (c.rank < 0 || c.kind != kPulse || member(c.rank).left || c.gone) continue;
    if (seconds_since(c.heard) > options.silent_seconds)
      note(cat(named(c.rank), " has been silent for ", static_cast<int>(seconds_since(c.heard)),
               " seconds: it is stopped, or cut off from the others"),
           c.rank);
  }
}

void MeetingServer::State::hear_who_ended() {
  std::vector<std::pair<int, std::string>> heard;
  {
    const std::lock_guard lock(mutex);
    heard = std::exchange(ended, {});
  }
  for (auto& [rank, how] : heard) {
    Member& gone = member(rank);
    if (!gone.left) gone.left_at = Clock::now();
    gone.left = true;
    gone.how = std::move(how);
    if (!gone.how.empty())
      note(cat(named(rank), " ", gone.how, gone.words.empty() ? "" : ": ", without_stop(gone.words)), rank);
  }
}

// A program that ended early: the others wait for it in a collective that it has not begun, or at the start.
void MeetingServer::State::look_for_the_left() {
  hear_who_ended();
  for (int rank = 0; rank < options.ranks; ++rank) {
    const Member& gone = member(rank);
    if (!gone.left || seconds_since(gone.left_at) < kLeftSeconds) continue;
    for (int r = 0; r < options.ranks; ++r) {
      const Member& other = member(r);
      if (!other.joined || other.left) continue;
      if (!gone.words.empty()) return note(cat(named(rank), " failed: ", without_stop(gone.words)), rank);
      if (gone.joined && other.begun <= gone.begun) continue;
      return note(
          cat(named(rank), " has ended in order", gone.joined ? "" : ", before it joined the others", ", while ",
              named(r), " waits for it: its program took another way than theirs, or had less to do"),
          rank);
    }
  }
}

// A connection broke, and nobody has died: somebody is late, or the network failed between two ranks.
void MeetingServer::State::look_for_the_late() {
  if (loss.rank < 0 || seconds_since(loss.at) < kBlameSeconds || !failure().empty()) return;
  int late = loss.rank;
  for (int r = 0; r < options.ranks; ++r)
    if (member(r).begun < member(late).begun) late = r;
  if (late == loss.rank) return note(cat(named(loss.rank), " has lost the others: ", loss.why), loss.rank);
  note(cat(named(late),
           " is alive, but does not come to where the others wait for it: it still computes or saves, waits "
           "for something, or its program took another way than theirs (VARVE_RANK_DEADLINE sets how long "
           "they wait). ",
           named(loss.rank), " says: ", loss.why),
       late);
}

void MeetingServer::State::leave(Connection& c) {
  if (c.rank < 0 || c.kind != kPulse) return;
  {
    const std::lock_guard lock(mutex);
    present.erase(c.rank);
  }
  if (member(c.rank).left) return;
  note(cat(named(c.rank), " has died: killed, out of memory, or crashed"), c.rank);
}

void MeetingServer::State::announce() {
  std::string why;
  int passed = 0;
  {
    const std::lock_guard lock(mutex);
    why = failed;
    passed = std::exchange(signal, 0);
  }
  const bool failed_now = !why.empty() && !announced;
  announced = announced || failed_now;
  for (Connection& c : connections) {
    if (c.rank < 0 || c.kind != kPulse || c.gone) continue;
    if (passed != 0) post(c, counted_frame(kSignal, static_cast<std::uint64_t>(passed)));
    if (failed_now) post(c, frame_of(kFail, {why}));
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
std::string MeetingServer::failure() const { return state_->failure(); }
int MeetingServer::blamed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->blamed;
}
bool MeetingServer::has_joined(int rank) const {
  const std::lock_guard lock(state_->mutex);
  return state_->present.count(rank) > 0;
}
std::string MeetingServer::value(const std::string& key) const {
  const std::lock_guard lock(state_->mutex);
  const auto known = state_->values.find(key);
  return known == state_->values.end() ? "" : known->second;
}
void MeetingServer::fail(const std::string& why, int rank) {
  state_->note(why, rank);
  state_->rouse();
}
void MeetingServer::ended(int rank, const std::string& how) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ended.push_back({rank, how});
  }
  state_->rouse();
}
void MeetingServer::pass_on(int signal) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->signal = signal;
  }
  state_->rouse();
}

}  // namespace varve
