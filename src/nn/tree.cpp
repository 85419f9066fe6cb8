// What a module answers about the variables of its tree.
#include <algorithm>
#include <unordered_set>

#include "nn/state.h"
#include "varve/distributed.h"

namespace varve::nn {
namespace {

void walk(const std::string& path, Module::State& state, const SeeEntry& see) {
  for (Module::State::Entry& entry : state.variables) see(join_path(path, entry.name), entry);
  for (const auto& [name, child] : state.children) walk(join_path(path, name), *child, see);
}

// As a shell matches: * any text, ? one character.
bool matches(const std::string& text, const std::string& pattern) {
  std::size_t t = 0, p = 0, star = std::string::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// The first module of the tree whose variables are still to be made.
struct Unbuilt {
  const Module::State* state = nullptr;
  std::string path;
};
Unbuilt first_unbuilt(const std::string& path, const Module::State& state) {
  if (state.learns_size && !state.called) return {&state, path};
  for (const auto& [name, child] : state.children)
    if (Unbuilt found = first_unbuilt(join_path(path, name), *child); found.state) return found;
  return {};
}

int set_trainable(Module::State& root, const Module::State::Pattern& pattern) {
  int matched = 0;
  each_entry(root, [&](const std::string& path, Module::State::Entry& entry) {
    if (!entry.parameter || !matches(path, pattern.text)) return;
    entry.variable.set_trainable(pattern.trainable);
    ++matched;
  });
  return matched;
}

void remember_pattern(Module::State& state, const Module::State::Pattern& pattern, bool built) {
  if (set_trainable(state, pattern) == 0 && built) {
    std::vector<std::string> paths;
    each_entry(state, [&](const std::string& path, const auto&) { paths.push_back(path); });
    throw Error((pattern.trainable ? "unfreeze: no parameter matches '" : "freeze: no parameter matches '") +
                pattern.text + "'." + did_you_mean(pattern.text, paths));
  }
  state.patterns.push_back(pattern);
}

}  // namespace

std::string join_path(const std::string& outer, const std::string& name) {
  return outer.empty() ? name : name.empty() ? outer : outer + "." + name;
}

void each_entry(Module::State& root, const SeeEntry& see) { walk("", root, see); }

void Module::State::apply_patterns() {
  for (const Pattern& pattern : patterns) set_trainable(*this, pattern);
}

bool Module::built() const { return !first_unbuilt("", *state_).state; }

std::vector<Variable> Module::parameters() const {
  if (const Unbuilt found = first_unbuilt("", *state_); found.state)
    throw Error((found.state == state_.get() ? kind() : found.state->kind + " \"" + found.path + "\"") +
                ": has no parameters yet: layers learn their input size from the first batch.\n"
                "  Call build({…}) with the shape of a sample, or run a batch, before asking for parameters.");
  std::vector<Variable> found;
  std::unordered_set<const void*> seen;
  each_entry(*state_, [&](const std::string&, const State::Entry& entry) {
    if (!entry.parameter || !entry.variable.trainable()) return;
    if (seen.insert(entry.variable.state().get()).second) found.push_back(entry.variable);
  });
  return found;
}

std::vector<NamedVariable> Module::named_variables() const {
  std::vector<NamedVariable> found;
  each_entry(*state_, [&](const std::string& path, const State::Entry& entry) {
    found.push_back({path, entry.variable, entry.parameter, entry.foreign});
  });
  return found;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  std::unordered_set<const void*> seen;
  each_entry(*state_, [&](const std::string&, const State::Entry& entry) {
    if (entry.parameter && seen.insert(entry.variable.state().get()).second) count += entry.variable.shape().numel();
  });
  return count;
}

Variable Module::variable(const std::string& path) const {
  Variable found;
  std::vector<std::string> paths;
  each_entry(*state_, [&](const std::string& known, const State::Entry& entry) {
    paths.push_back(known);
    if (known == path) found = entry.variable;
  });
  if (found.state()) return found;
  throw Error(kind() + ": has no variable '" + path + "'." +
              did_you_mean(path, paths, built() ? "" : " Its variables are made by build({…}) or by the first batch."));
}

void Module::freeze(const std::string& pattern) { remember_pattern(*state_, {pattern, false}, built()); }
void Module::unfreeze(const std::string& pattern) { remember_pattern(*state_, {pattern, true}, built()); }

namespace {

void set_rank(Module::State& tree, int rank) {
  tree.rank = rank;
  tree.split = Split::none;
  for (const auto& [name, child] : tree.children) set_rank(*child, rank);
}

bool is_placed(const Module::State& tree) {
  if (tree.rank >= 0 || tree.split != Split::none) return true;
  return std::any_of(tree.children.begin(), tree.children.end(),
                     [](const auto& child) { return is_placed(*child.second); });
}

}  // namespace

void Module::place(const PlaceOptions& options) {
  if (tracing()) throw Error(kind() + ": place() inside a compiled function; call it before.");
  if (options.rank < -1)
    throw Error(kind() + ": place: expected a rank of 0 or more, or -1, got " + std::to_string(options.rank) + ".");
  if (options.split != Split::none) {
    if (options.rank >= 0)
      throw Error(kind() + ": place: either on rank " + std::to_string(options.rank) + " or split by " +
                  name(options.split) + " among all of them.");
    if (state_->rank >= 0) place({});
    return split_over_ranks(options.split);
  }
  std::vector<Variable> variables;
  each_entry(*state_, [&](const std::string&, const State::Entry& entry) { variables.push_back(entry.variable); });
  if (options.rank >= 0)
    distributed::place(variables, options.rank);
  else
    distributed::unshard(variables);
  set_rank(*state_, options.rank);
}

void Module::split_over_ranks(Split how) {
  throw Error(kind() + ": cannot be split by " + name(how) +
              ". What can: dense by columns or rows, multi_head_attention and transformer_block by heads. Any module "
              "can live on one rank: place({.rank = 1}).");
}

void Module::set_split(Split how) {
  state_->split = how;
  for (const State::Entry& entry : state_->variables) entry.divide(how);
}

void Module::State::Entry::divide(Split how) const {
  const int axis = how == Split::none ? -1 : how == Split::rows ? cut.rows : cut.columns;
  if (axis >= 0) distributed::split({variable}, axis, how == Split::rows ? 1 : cut.blocks);
}

std::string name(Split split) {
  switch (split) {
    case Split::columns:
      return "columns";
    case Split::rows:
      return "rows";
    case Split::heads:
      return "heads";
    case Split::none:
      break;
  }
  return "none";
}

Split split_by_name(const std::string& text) {
  std::vector<std::string> names;
  for (const Split split : {Split::none, Split::columns, Split::rows, Split::heads}) {
    if (name(split) == text) return split;
    names.push_back(name(split));
  }
  throw Error("unknown split '" + text + "'." + did_you_mean(text, names));
}

bool Module::placed() const { return is_placed(*state_); }

void Module::reset_state() {
  each_entry(*state_, [](const std::string&, State::Entry& entry) {
    if (entry.carried) entry.variable.assign(zeros(entry.variable.shape(), entry.variable.type().dtype));
  });
}

}  // namespace varve::nn
