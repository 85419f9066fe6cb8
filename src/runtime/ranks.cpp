// How this process joins the other ranks of its job, and what they tell each other outside programs.
#include "base/ranks.h"

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "backend/communicator.h"
#include "base/hash.h"
#include "base/meeting.h"
#include "base/sockets.h"
#include "base/text.h"
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

// The meeting outlives the communicator that was arranged there.
struct Job {
  std::unique_ptr<MeetingServer> server;  // on rank 0, where no launcher has one
  std::unique_ptr<MeetingClient> client;
};

std::shared_ptr<Job> meet(const RankPlace& place) {
  auto job = std::make_shared<Job>();
  const MeetingOptions options{place.size, place.key, seconds_from("VARVE_SILENT_SECONDS", 10)};
  if (place.hosts_meeting) {
    const HostPort at = parse_address(place.meeting);
    job->server = std::make_unique<MeetingServer>(at.host, at.port, options);
  }
  job->client = std::make_unique<MeetingClient>(place.meeting, place.rank, options);
  return job;
}

backend::Opened open() {
  const RankPlace& place = rank_place();
  if (place.size == 1) throw Error("distributed: this is a world of one rank. Start several: varve launch -n 4 …");
  backend::Joining joining{.rank = place.rank,
                           .size = place.size,
                           .host = {},
                           .set = {},
                           .get = {},
                           .deadline_seconds = seconds_from("VARVE_RANK_DEADLINE", 600)};
  backend::Opened opened;
  if (place.meeting.empty()) {
    opened.communicator = load_communicator(place.engine, joining);
    return opened;
  }
  const std::shared_ptr<Job> job = meet(place);
  joining.host = job->client->own_host();
  joining.set = [job](const std::string& key, const std::string& value) { job->client->set(key, value); };
  joining.get = [job](const std::string& key) { return job->client->get(key, 60); };
  opened.communicator = load_communicator(place.engine, joining);
  opened.verdict = [job] { return job->client->failure(); };
  opened.note = [job](const std::string& key, const std::string& value) { job->client->set(key, value); };
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

}  // namespace

void join() {
  if (size() > 1) ranks();
}

std::string engine() { return size() == 1 ? "none" : ranks().engine(); }

WireTime wire_time() {
  if (!backend::Communication::is_open()) return {};
  return {ranks().seconds_busy(), ranks().seconds_waited()};
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

void note(const std::string& key, const std::string& value) {
  if (size() > 1) ranks().note(key, value);
}

void broadcast_variables(const std::vector<Variable>& variables, int root) {
  if (size() == 1) return;
  for (const Variable& each : variables) {
    if (is_sharded(each)) continue;
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
  std::erase_if(variables, is_sharded);  // no rank has a copy to compare
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
