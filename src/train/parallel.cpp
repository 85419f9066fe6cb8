#include "train/parallel.h"

#include "train/shard_tree.h"
#include "varve/error.h"

namespace varve::train {

using distributed::Parallel;
using text::Place;
using text::Value;

namespace {

struct Setting {
  const char* name;
  std::function<void(Parallel&, const Value&, const Place&)> set;
  std::function<Value(const Parallel&)> get;
};

Setting flag(const char* name, bool Parallel::*field) {
  return {name, [=](Parallel& p, const Value& v, const Place& at) { p.*field = at.flag(v); },
          [=](const Parallel& p) { return Value::of(p.*field); }};
}

Setting whole(const char* name, std::int64_t Parallel::*field, std::int64_t least) {
  return {name, [=](Parallel& p, const Value& v, const Place& at) { p.*field = at.whole(v, least, 1'000'000'000); },
          [=](const Parallel& p) { return Value::of(p.*field); }};
}

Value compression_value(const distributed::Compression& c) {
  Named named{c.name, {}};
  if (c.share > 0) named.options.emplace_back("share", c.share);
  if (c.rank > 0) named.options.emplace_back("rank", c.rank);
  return named.options.empty() ? Value::of(c.name) : named_value(named);
}

void read_compression(Parallel& parallel, const Value& value, const Place& place) {
  const Named named = read_named(value, place);
  try {
    parallel.compress = distributed::compression_by_name(named.name, named.options);
  } catch (const Error& e) {
    place.fail(value, e.what());
  }
}

const std::vector<Setting>& fields() {
  static const std::vector<Setting> all = {
      flag("shard_optimizer", &Parallel::shard_optimizer),
      flag("shard_parameters", &Parallel::shard_parameters),
      {"compress", read_compression, [](const Parallel& p) { return compression_value(p.compress); }},
      whole("shards", &Parallel::shards, 0),
      whole("micro_batches", &Parallel::micro_batches, 1),
      flag("pipeline", &Parallel::pipeline),
      flag("split", &Parallel::split),
      flag("sync_batch_norm", &Parallel::sync_batch_norm),
      whole("check_every", &Parallel::check_every, 0),
      whole("average_every", &Parallel::average_every, 0),
      {"block_momentum", [](Parallel& p, const Value& v, const Place& at) { p.block_momentum = at.number(v, 0, 1); },
       [](const Parallel& p) { return Value::of(p.block_momentum); }},
      whole("staleness", &Parallel::staleness, -1),
  };
  return all;
}

void read(Parallel& parallel, const Value& value, const Place& place) {
  if (value.kind != Value::table) place.expected(value, "a table such as {shards = 8}");
  Parallel read;
  for (const auto& [key, inside] : value.fields) {
    const Setting* found = nullptr;
    std::vector<std::string> known;
    for (const Setting& field : fields()) {
      known.push_back(field.name);
      if (field.name == key) found = &field;
    }
    if (!found) place.fail(inside, "unknown key '" + key + "'." + did_you_mean(key, known));
    found->set(read, inside, place.inside(key));
  }
  try {
    check_parallel("parallel", read);
  } catch (const Error& e) {
    place.fail(value, e.what());
  }
  parallel = read;
}

}  // namespace

KeyRow parallel_row() {
  std::string names;
  for (const Setting& field : fields()) names += std::string(names.empty() ? "" : ", ") + field.name;
  return {{"parallel", "table", "", "how many ranks train it together, with any of: " + names},
          [](Config& c, const Value& v, const Place& p) { read(c.parallel, v, p); },
          [](const Config& c) {
            Value table;
            for (const Setting& field : fields()) table.set(field.name, field.get(c.parallel));
            return table;
          }};
}

bool is_model_parallel(const nn::Module& model) { return distributed::size() > 1 && model.placed(); }

void check_model_parallel(const std::string& where, const Parallel& p) {
  const auto wrong = [&](const char* what, const char* why) {
    throw Error(where + ": " + what + " and a model that is placed on ranks do not go together: " + why);
  };
  const char* const whole = "every rank sees the whole batch, and has a part of the model alone. Leave it out.";
  if (p.shard_optimizer || p.shard_parameters) wrong("sharded state", whole);
  if (p.shards > 0) wrong("shards", whole);
  if (p.compress.name != "none") wrong("compress", whole);
  if (p.average_every > 0) wrong("average_every", whole);
  if (p.staleness >= 0) wrong("staleness", whole);
  if (p.sync_batch_norm) wrong("sync_batch_norm", "batch norm sees each micro-batch whole. Leave it out.");
}

void check_parallel(const std::string& where, const Parallel& p) {
  const auto wrong = [&](const std::string& what) { throw Error(where + ": " + what); };
  const auto least = [&](const char* name, std::int64_t value, std::int64_t low) {
    if (value < low)
      wrong(std::string(name) + " must be at least " + std::to_string(low) + ", got " + std::to_string(value) + ".");
  };
  least("shards", p.shards, 0);
  least("micro_batches", p.micro_batches, 1);
  least("check_every", p.check_every, 0);
  least("average_every", p.average_every, 0);
  least("staleness", p.staleness, -1);
  if (!(p.block_momentum >= 0 && p.block_momentum < 1))
    wrong("block_momentum must be at least 0 and less than 1, got " + std::to_string(p.block_momentum) + ".");
  distributed::compression_by_name(p.compress.name, {});
  // Each of these decides where the weights are and what travels.
  std::vector<std::string> ways;
  if (p.shard_optimizer || p.shard_parameters) ways.push_back("sharded state");
  if (p.shards > 0) ways.push_back("shards");
  if (p.compress.name != "none") ways.push_back("compress");
  if (p.average_every > 0) ways.push_back("average_every");
  if (p.staleness >= 0) ways.push_back("staleness");
  if (p.pipeline) ways.push_back("pipeline");
  if (p.split) ways.push_back("split");
  if (ways.size() > 1) wrong(ways[0] + " and " + ways[1] + " do not go together: leave one of them out.");
  if (p.shards > 0 && p.sync_batch_norm)
    wrong(
        "with shards, batch norm goes by a shard's statistics, which are the same for any number of ranks: leave "
        "sync_batch_norm out.");
  const std::string alone = p.average_every > 0 ? "average_every" : p.staleness >= 0 ? "staleness" : "";
  if (!alone.empty() && p.sync_batch_norm)
    wrong(alone + ": ranks step by themselves, and have no statistics of the whole batch: leave sync_batch_norm out.");
  if (!alone.empty() && p.check_every > 0)
    wrong(alone + ": ranks step by themselves, and their weights differ: leave check_every out.");
  if (p.block_momentum > 0 && p.average_every == 0) wrong("block_momentum is of averages: set average_every too.");
}

void check_shards(const std::string& where, std::int64_t shards, std::int64_t batch, const data::Dataset& dataset) {
  if (shards == 0) return;
  if (!dataset.parts().empty())
    throw Error(where + ": \"" + dataset.info().name +
                "\" lies in parts, one for each rank, so that another number of ranks has other batches: leave shards "
                "out, or give every rank all samples.");
  if (batch < shards)
    throw Error(where + ": a batch of " + std::to_string(batch) + " cannot be cut into " + std::to_string(shards) +
                " shards.");
  shards_of_rank(shards, distributed::rank(), distributed::size());
}

}  // namespace varve::train
