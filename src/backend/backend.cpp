#include "backend/backend.h"

#include <map>
#include <mutex>

#include "base/text.h"

namespace varve::backend {

std::string ErrorWord::text() const {
  const std::string* what = what_;
  std::int64_t value = value_;
  if (shared_.word && *shared_.word) {
    const std::uint64_t word = *shared_.word;
    what = shared_.text(static_cast<int>(word >> 48) - 1);
    value = static_cast<std::int64_t>(word << 16) >> 16;  // the sign of 48 bits
  }
  const std::size_t at = what->find("{}");
  if (at == std::string::npos) return cat(*what, " Got ", value, ".");
  return cat(what->substr(0, at), value, what->substr(at + 2));
}

bool Site::is_output(const ir::Value& value) const {
  for (const ir::Value& output : graph_.outputs)
    if (output == value) return true;
  return false;
}

const std::vector<ir::Use>& Site::users(const ir::Value& value) const {
  static const std::vector<ir::Use> none;
  const auto it = users_.find(value);
  return it == users_.end() ? none : it->second;
}

ir::NodePtr Site::sole_user(const ir::Value& value) const {
  const std::vector<ir::Use>& readers = users(value);
  if (readers.size() != 1 || is_output(value)) return nullptr;
  return readers[0].user;
}

bool Site::is_state(const ir::Value& value) const {
  for (const auto& [in, out] : graph_.updates)
    if (graph_.inputs[static_cast<std::size_t>(in)] == value.node) return true;
  return false;
}

Claim Claim::no(std::string kernel, std::string reason) {
  Claim claim;
  claim.kernel = std::move(kernel);
  claim.refusal = std::move(reason);
  return claim;
}

Claim Claim::of(std::string kernel, const ir::NodePtr& node, Prepare prepare) {
  Claim claim;
  claim.kernel = std::move(kernel);
  claim.nodes = {node};
  claim.inputs = node->inputs;
  for (int i = 0; i < static_cast<int>(node->types.size()); ++i) claim.outputs.push_back({node, i});
  claim.in_place = node->op->in_place;
  claim.prepare = std::move(prepare);
  return claim;
}

std::string Backend::cat_group(const Group& group) {
  return cat("this backend runs no generated groups (", group.nodes.size(), " nodes)");
}

namespace {
std::mutex user_mutex;
std::map<std::pair<const OpRecord*, std::string>, UserKernel>& user_kernels() {
  static std::map<std::pair<const OpRecord*, std::string>, UserKernel> table;
  return table;
}
}  // namespace

void add_user_kernel(const OpRecord& op, const std::string& backend, UserKernel kernel) {
  const std::lock_guard lock(user_mutex);
  user_kernels()[{&op, backend}] = std::move(kernel);
}

const UserKernel* find_user_kernel(const OpRecord& op, const std::string& backend) {
  const std::lock_guard lock(user_mutex);
  const auto it = user_kernels().find({&op, backend});
  return it == user_kernels().end() ? nullptr : &it->second;
}

}  // namespace varve::backend
