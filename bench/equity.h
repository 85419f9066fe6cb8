// When two lists of losses are of the same network. Two programs that compute the same network round differently, and a
// deep network with batch norm amplifies that from step to step. So the bound is measured: Varve's own network is
// trained again from weights whose last bits were moved, and the bound grows as those losses leave the first ones.
#pragma once

#include <string>
#include <vector>

namespace varve::bench {

using Losses = std::vector<double>;

// Relative bounds. The first loss is of a forward pass alone: there is no step yet that could amplify anything.
inline constexpr double kFirstLossBound = 1e-4;
inline constexpr double kLossBound = 1e-3;         // of the others, where rounding is not amplified
inline constexpr double kLargestLossBound = 1e-2;  // whatever the perturbed runs do
// A framework rounds in every operator of every step, a perturbed run moves the weights once.
inline constexpr double kRoundingFactor = 16;

// One bound for each loss. It never falls from one loss to the next. `perturbed`: one list for each perturbed run;
// without any, the bounds are those of a network that does not amplify.
std::vector<double> loss_bounds(const Losses& reference, const std::vector<Losses>& perturbed = {});

// Of the predictions' root mean square after the five steps: running statistics of batch norm are in it, and
// frameworks differ in the last digits of those (Keras divides by n, PyTorch by n - 1).
inline constexpr double kPredictionBound = 0.05;

struct LossComparison {
  double worst = 0;            // the largest relative difference, as far as it was compared
  std::string objection = {};  // which loss is too far apart; "": none
};
LossComparison compare_losses(const Losses& losses, const Losses& reference, const std::vector<double>& bounds);

// What speaks against the same network; "": nothing.
std::string prediction_objection(double prediction, double reference);

}  // namespace varve::bench
