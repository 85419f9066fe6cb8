// How this process joins the other ranks of its job, and what they tell each other outside programs.
#include "base/ranks.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include "backend/communicator.h"
#include "backend/device.h"
#include "base/cpu.h"
#include "base/hash.h"
#include "base/levers.h"
#include "base/meeting.h"
#include "base/sockets.h"
#include "base/text.h"
#include "runtime/devices.h"
#include "runtime/execution.h"
#include "runtime/lone_rank.h"
#include "runtime/plugin.h"
#include "varve/distributed.h"

namespace varve {
namespace runtime {
namespace {

double seconds_from(const char* variable, double otherwise) {
  const char* value = std::getenv(variable);
  if (!value || !*value) return otherwise;
  char* end = nullptr;
  const double seconds = std::strtod(value, &end);
  if (*end != 0 || !(seconds > 0)) throw Error(cat(variable, ": expected a number of seconds, got '", value, "'."));
  return seconds;
}

std::string own_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

// The meeting outlives the communicator that was arranged there.
struct Job {
  std::unique_ptr<MeetingServer> server;  // on rank 0, where no launcher has one
  std::shared_ptr<MeetingClient> client;
};

// A rank that has died, or has ended, is named by the launcher meanwhile; one that loads slowly is waited for.
void wait_for_all(const RankPlace& place, MeetingClient& client, double seconds) {
  client.set(cat("here/", place.rank), "");
  for (int r = 0; r < place.size; ++r) client.get(cat("here/", r), seconds, cat("rank ", r));
}

MeetingOptions meeting_options(const RankPlace& place, const std::string& key) {
  return {place.size, key, seconds_from("VARVE_SILENT_SECONDS", 10)};
}

std::shared_ptr<Job> meet(const RankPlace& place, double seconds) {
  auto job = std::make_shared<Job>();
  const MeetingOptions options = meeting_options(place, place.key);
  if (place.hosts_meeting) {
    const HostPort at = parse_address(place.meeting);
    job->server = std::make_unique<MeetingServer>(at.host, at.port, options);
  }
  job->client = std::make_shared<MeetingClient>(place.meeting, place.rank, options);
  wait_for_all(place, *job->client, seconds);
  return job;
}

// Where MPI has started the ranks they need no meeting to find each other, but one to say who is gone: MPI notices only
// deaths. Rank 0 tells where it is. Null: they cannot reach it.
std::shared_ptr<Job> meet_by(backend::Communicator& all, const RankPlace& place) {
  auto job = std::make_shared<Job>();
  const std::string key = place.rank == 0 ? random_key() : "";
  std::string told;
  if (place.rank == 0) {
    const std::string host = place.local_size == place.size ? "127.0.0.1" : own_name();
    try {
      job->server = std::make_unique<MeetingServer>(host, 0, meeting_options(place, key));
      told = cat(key, " ", host, ":", job->server->port());
    } catch (const Error&) {  // told stays empty
    }
  }
  told.resize(512);
  all.broadcast(told.data(), told.size(), 0);
  told.resize(std::strlen(told.c_str()));
  std::int32_t reached = 0;
  if (const std::size_t space = told.find(' '); space != std::string::npos) try {
      constexpr double kReachSeconds = 10;
      const MeetingOptions options = meeting_options(place, told.substr(0, space));
      job->client = std::make_shared<MeetingClient>(told.substr(space + 1), place.rank, options, kReachSeconds);
      reached = 1;
    } catch (const Error&) {  // this rank has not reached it
    }
  all.all_reduce(&reached, 1, i32, backend::Combine::min);
  return reached ? job : nullptr;
}

// An engine does not hear who dies while it connects, and would wait for it: it connects in a thread that is left alone
// then. When it fails, the reason is often known a moment later.
std::unique_ptr<backend::Communicator> connect(const std::string& engine, const backend::Joining& joining,
                                               const std::shared_ptr<MeetingClient>& client) {
  constexpr int kVerdictTries = 60;  // of 50 ms
  std::promise<std::unique_ptr<backend::Communicator>> promised;
  std::future<std::unique_ptr<backend::Communicator>> made = promised.get_future();
  std::thread([engine, joining = joining, promised = std::move(promised)]() mutable {
    std::unique_ptr<backend::Communicator> communicator;
    std::exception_ptr error;
    try {
      communicator = load_communicator(engine, joining);
    } catch (...) {
      error = std::current_exception();
    }
    joining = {};  // who goes on, or ends, is the only one to hold the meeting
    error ? promised.set_exception(error) : promised.set_value(std::move(communicator));
  }).detach();
  const auto tick = std::chrono::milliseconds(50);
  while (made.wait_for(tick) != std::future_status::ready)
    if (const std::string why = client->failure(); !why.empty()) throw Error(cat(why, "."));
  try {
    return made.get();
  } catch (const std::exception& error) {
    for (int i = 0; i < kVerdictTries && client->failure().empty(); ++i) std::this_thread::sleep_for(tick);
    if (const std::string why = client->failure(); !why.empty()) throw Error(cat(why, "."));
    client->last_words(error.what());
    throw;
  }
}

backend::Opened open() {
  const RankPlace& place = rank_place();
  if (place.size == 1 && !lever("lone-rank")) return {.communicator = lone_rank()};
  if (place.size == 1) throw Error("distributed: this is a world of one rank. Start several: varve launch -n 4 …");
  backend::Joining joining{.rank = place.rank,
                           .size = place.size,
                           .host = {},
                           .set = {},
                           .get = {},
                           .deadline_seconds = seconds_from("VARVE_RANK_DEADLINE", 600)};
  backend::Opened opened;
  opened.deadline_seconds = joining.deadline_seconds;
  std::shared_ptr<Job> job;
  if (place.engine == "gloo") {
    job = meet(place, joining.deadline_seconds);
    joining.host = job->client->own_host();
    joining.set = [job](const std::string& key, const std::string& value) { job->client->set(key, value); };
    joining.get = [job](const std::string& key) { return job->client->get(key, 60); };
    opened.communicator = connect(place.engine, joining, job->client);
  } else {
    opened.communicator = load_communicator(place.engine, joining);
    job = meet_by(*opened.communicator, place);
    if (!job) return opened;
  }
  opened.host = job->client->own_host();
  opened.verdict = [job] { return job->client->failure(); };
  opened.note = [job](const std::string& key, const std::string& value) { job->client->set(key, value); };
  opened.begun = [job](std::uint64_t collectives) { job->client->begun(collectives); };
  opened.lost = [job](const std::string& why) { job->client->lost(why); };
  opened.last_words = [job](const std::string& why) { job->client->last_words(why); };
  opened.tell = [job](const std::string& why) { job->client->fail(why); };
  opened.listen = [job](std::function<void(const std::string&)> told) { job->client->on_failure(std::move(told)); };
  return opened;
}

[[maybe_unused]] const bool installed = (backend::set_communicator_loader(open), true);

}  // namespace
}  // namespace runtime

namespace distributed {
namespace {

backend::Communication& ranks() { return backend::Communication::get(); }

// Bytes of each rank, of equal length.
std::vector<std::string> gather_equal(const std::string& bytes) {
  std::string all(bytes.size() * static_cast<std::size_t>(size()), '\0');
  ranks().run([&](backend::Communicator& world) { world.all_gather(bytes.data(), all.data(), bytes.size()); });
  std::vector<std::string> each;
  for (std::size_t r = 0; r < static_cast<std::size_t>(size()); ++r)
    each.push_back(all.substr(r * bytes.size(), bytes.size()));
  return each;
}

// Of the device in use, where that moves values by itself.
std::string device_engine() {
  const backend::Device* device = runtime::backend_named(varve::device()).device();
  return device ? device->engine() : "";
}

}  // namespace

void join() {
  if (size() == 1) return;
  ranks();
  if (backend::Device* const device = runtime::backend_named(varve::device()).device()) runtime::join_on(*device);
}

void last_words(const std::string& why) {
  if (size() > 1 && backend::Communication::is_open()) ranks().last_words(why);
}

std::string engine() {
  if (size() == 1) return "none";
  const std::string own = device_engine();
  return own.empty() ? ranks().engine() : own;
}

WireTime wire_time() {
  if (!backend::Communication::is_open() || !device_engine().empty()) return {};
  return {ranks().seconds_busy(), ranks().seconds_waited(), ranks().sent_bytes(), ranks().messages()};
}

std::vector<std::string> gather_text(const std::string& text) {
  if (size() == 1) return {text};
  const std::uint64_t length = text.size();
  std::string number(sizeof(length), '\0');
  std::memcpy(number.data(), &length, sizeof(length));
  std::vector<std::uint64_t> lengths;
  std::uint64_t longest = 0;
  for (const std::string& each : gather_equal(number)) {
    lengths.emplace_back();
    std::memcpy(&lengths.back(), each.data(), sizeof(length));
    longest = std::max(longest, lengths.back());
  }
  std::string padded = text;
  padded.resize(longest);
  std::vector<std::string> all = gather_equal(padded);
  for (std::size_t r = 0; r < all.size(); ++r) all[r].resize(lengths[r]);
  return all;
}

void check_processors() {
  const std::string others = unlike_ranks(gather_text(isa_name()));
  if (!others.empty())
    throw Error(cat("ranks with unlike processors do not give the same bits: rank 0 has ", isa_name(), ", ", others,
                    ". Use hosts of one kind, or leave shards out."));
}

void note(const std::string& key, const std::string& value) {
  if (size() > 1) ranks().note(key, value);
}

Received recv_any(const TensorType& type, int tag) {
  if (tracing()) throw Error("recv_any: who sends first is not known to a compiled function; call it between steps.");
  if (size() == 1) throw Error("recv_any: this is a world of one rank: nobody sends.");
  std::vector<std::byte> bytes(static_cast<std::size_t>(type.bytes()));
  int from = 0;
  ranks().run([&](backend::Communicator& world) { from = world.receive_any(bytes.data(), bytes.size(), tag); });
  return {detail::from_bytes(bytes.data(), type), from};
}

void broadcast_variables(const std::vector<Variable>& variables, int root) {
  if (size() == 1) return;
  for (const Variable& each : variables) {
    if (!kept_of(each).same(each)) continue;
    Variable variable = each;
    const Tensor value = variable.value();
    const auto* from = static_cast<const std::byte*>(value.data());
    std::vector<std::byte> bytes(from, from + value.type().bytes());
    ranks().run([&](backend::Communicator& world) { world.broadcast(bytes.data(), bytes.size(), root); });
    if (rank() != root) variable.assign(detail::from_bytes(bytes.data(), value.type()));
  }
}

void check_ranks(const std::vector<Variable>& all_variables) {
  if (size() == 1) return;
  std::vector<Variable> variables = all_variables;
  // No rank has a copy to compare.
  std::erase_if(variables, [](const Variable& each) { return !kept_of(each).same(each); });
  std::string hashes;
  for (const Variable& variable : variables) {
    const Tensor value = variable.value();
    const std::uint64_t hash = hash_bytes(value.data(), value.type().bytes());
    hashes.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
  }
  const std::vector<std::string> all = gather_text(hashes);
  for (std::size_t v = 0; v < variables.size(); ++v) {
    std::string others;
    for (std::size_t r = 1; r < all.size(); ++r)
      if (all[r].size() != hashes.size() || all[r].compare(8 * v, 8, all[0], 8 * v, 8) != 0)
        others += cat(others.empty() ? "" : ", ", r);
    if (!others.empty())
      throw Error(cat("check_ranks: variable \"", variables[v].name(), "\" of rank ", others,
                      " differs from rank 0's. Ranks must start from the same weights and apply the same updates: is "
                      "something random, or assigned on one rank alone?"));
  }
}

}  // namespace distributed
}  // namespace varve
