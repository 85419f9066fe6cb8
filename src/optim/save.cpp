// An optimiser's state as a file, and back.
#include <algorithm>
#include <map>
#include <set>

#include "varve/io.h"
#include "varve/optim.h"

namespace varve::optim {
namespace {

std::vector<Variable> named_apart(const Bound& bound, const char* what) {
  std::vector<Variable> all = bound.state();
  std::set<std::string> names;
  for (const Variable& variable : all)
    if (!names.insert(variable.name()).second)
      throw Error(std::string(what) + ": two parameters have the same name: both keep \"" + variable.name() +
                  "\". Rename one of them.");
  return all;
}

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

}  // namespace

void Bound::save(const std::string& path) const {
  Safetensors content;
  for (const Variable& variable : named_apart(*this, "save")) content.tensors.emplace_back(variable.name(), variable);
  save_safetensors(path, content);
}

void Bound::load(const std::string& path) {
  if (tracing()) throw Error("load: inside a compiled function; call it before.");
  const std::string where = "load '" + path + "': ";
  const std::vector<Variable> all = named_apart(*this, "load");
  const Safetensors file = load_safetensors(path);
  std::map<std::string, Tensor> values(file.tensors.begin(), file.tensors.end());
  std::vector<Tensor> found;
  for (const Variable& variable : all) {
    const auto at = values.find(variable.name());
    if (at == values.end())
      throw Error(where + "has no " + quoted(variable.name()) +
                  ": is it the state of another optimiser, or of another model?");
    if (at->second.type() != variable.type())
      throw Error(where + quoted(variable.name()) + " is " + at->second.type().str() + ", this optimiser needs " +
                  variable.type().str() + ".");
    found.push_back(at->second.eval());
    values.erase(at);
  }
  if (!values.empty())
    throw Error(where + "also has " + quoted(values.begin()->first) + ", which this optimiser does not keep.");
  for (std::size_t i = 0; i < all.size(); ++i) Variable(all[i]).assign(found[i]);
}

}  // namespace varve::optim
