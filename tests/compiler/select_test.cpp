// Which of several claims is taken.
#include <gtest/gtest.h>

#include "compiler/traced.h"

namespace varve::compiler {
namespace {

using backend::Claim;

// Offers for exp what a test tells it to, and one kernel for everything else.
class Offering final : public backend::Backend {
 public:
  struct Offer {
    std::string kernel;
    double cost = 0;
    std::string refusal = "";
  };
  explicit Offering(std::vector<Offer> offers) : offers_(std::move(offers)) {}
  std::string name() const override { return "offering"; }
  bool executes() const override { return false; }
  std::vector<Claim> claims(const backend::Site& site) const override {
    const backend::Prepare nothing = [](const auto&, const auto&) {
      return backend::prepared([](const backend::RunArgs&) {});
    };
    if (!site.node().is("exp")) return {Claim::of(site.node().op->name, site.root(), nothing)};
    std::vector<Claim> all;
    for (const Offer& offer : offers_) {
      all.push_back(Claim::of(offer.kernel, site.root(), nothing));
      all.back().cost = offer.cost;
      all.back().refusal = offer.refusal;
      if (offer.kernel == "pair") {  // covers its reader as well
        const ir::NodePtr reader = site.sole_user({site.root(), 0});
        all.back().nodes.push_back(reader);
        all.back().outputs = {{reader, 0}};
      }
    }
    return all;
  }
  backend::Prepared prepare_copy(const backend::Port&, const backend::Port&) const override {
    return backend::prepared([](const backend::RunArgs&) {});
  }

 private:
  std::vector<Offer> offers_;
};

std::string taken(const std::vector<Offering::Offer>& offers) {
  const Offering backend(offers);
  const auto plan =
      compile(traced([](const Tensors& in) { return Tensors{varve::exp(in[0])}; }, {{f32, {4, 6}}}), backend);
  return plan->steps.back().kernel;
}

TEST(Select, TheCheapestOfThoseThatCoverAsMuchIsTaken) {
  EXPECT_EQ(taken({{"slow", 3e-6}, {"fast", 1e-6}, {"middling", 2e-6}}), "fast");
  EXPECT_EQ(taken({{"slow", 3e-6}, {"fast", 1e-6, "refused"}, {"middling", 2e-6}}), "middling");
  EXPECT_EQ(taken({{"first", 1e-6}, {"second", 1e-6}}), "first");
}

TEST(Select, AClaimWithoutACostKeepsItsPlace) {
  EXPECT_EQ(taken({{"first"}, {"second", 1e-6}}), "first");
  EXPECT_EQ(taken({{"first", 1e-6}, {"second"}}), "first");
  EXPECT_EQ(taken({{"first"}, {"second"}}), "first");
}

TEST(Select, WhatCoversMoreIsNotUndercut) {
  const auto graph = traced([](const Tensors& in) { return Tensors{cumsum(varve::exp(in[0]), 0)}; }, {{f32, {4, 6}}});
  const auto plan = compile(graph, Offering({{"pair", 3e-6}, {"one", 1e-6}}));
  ASSERT_EQ(plan->steps.size(), 1u);
  EXPECT_EQ(plan->steps[0].kernel, "pair");
}

}  // namespace
}  // namespace varve::compiler
