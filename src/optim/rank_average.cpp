// Ranks that step by themselves, and average their weights now and then.
#include "optim/named.h"
#include "varve/compile.h"
#include "varve/distributed.h"
#include "varve/ops.h"
#include "varve/optim.h"

namespace varve::optim {

struct RankAverage::State {
  struct Member {
    Variable variable;
    Variable before, speed;  // with momentum: what the last average gave, and how it moved
  };
  std::vector<Member> members;
  double momentum = 0;
  std::unique_ptr<Compiled<void, 0>> program;

  void record() {
    std::vector<Tensor> values;
    for (const Member& member : members) values.push_back(member.variable.value());
    const std::vector<Tensor> means = distributed::mean_gradients(values);
    for (std::size_t i = 0; i < members.size(); ++i) {
      Member& member = members[i];
      Tensor now = means[i];
      if (member.speed.state()) {
        const Tensor before = member.before.value();
        const Tensor speed = member.speed.value() * momentum + (now - before);
        now = before + speed;
        member.speed.assign(speed);
        member.before.assign(now);
      }
      member.variable.assign(now);
    }
  }
};

RankAverage::RankAverage(const std::vector<Variable>& variables, double block_momentum)
    : state_(std::make_shared<State>()) {
  if (!(block_momentum >= 0 && block_momentum < 1))
    throw Error("rank average: block_momentum must be at least 0 and less than 1, got " + text(block_momentum) + ".");
  state_->momentum = distributed::size() > 1 ? block_momentum : 0;
  for (const Variable& variable : variables) {
    const TensorType type = variable.type();
    if (!is_floating(type.dtype)) continue;
    State::Member member{variable, {}, {}};
    if (state_->momentum > 0 && variable.trainable()) {  // statistics have no direction
      member.before = Variable("before." + variable.name(), variable.value(), false);
      member.speed = Variable("speed." + variable.name(), zeros(type.shape, type.dtype), false);
    }
    state_->members.push_back(std::move(member));
  }
  state_->program =
      std::make_unique<Compiled<void, 0>>(compile([state = state_.get()] { state->record(); }, {.name = "average"}));
}

void RankAverage::operator()() {
  if (distributed::size() > 1 && !state_->members.empty()) (*state_->program)();
}

std::vector<Variable> RankAverage::state() const {
  std::vector<Variable> all;
  for (const State::Member& member : state_->members)
    if (member.speed.state()) all.insert(all.end(), {member.before, member.speed});
  return all;
}

}  // namespace varve::optim
