// Early stopping, the table of results, and functions of one's own.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "train/report.h"
#include "train/session_double.h"
#include "varve/io.h"

namespace varve::train {
namespace {

// The epoch after which it stopped; 0: it did not.
int stops_after(const EarlyStopping& options, const std::string& name, const std::vector<double>& values,
                const std::string& monitor = "val_loss") {
  SessionDouble session(monitor);
  const CallbackPtr callback = early_stopping(options);
  for (const double value : values) {
    session.do_epoch(*callback, {{name, value}});
    if (!session.stopped().empty()) return session.epoch();
  }
  return 0;
}

TEST(EarlyStopping, WaitsForABetterValue) {
  EXPECT_EQ(stops_after({.patience = 2}, "val_loss", {3, 2, 2.5, 1, 1.5, 1, 0.5}), 6);
  EXPECT_EQ(stops_after({.patience = 3}, "val_loss", {3, 2, 2.5, 1, 1.5, 1, 0.5}), 0);
  EXPECT_EQ(stops_after({.patience = 1}, "val_loss", {3, 2, 2}), 3);
}

TEST(EarlyStopping, SmallGainsDoNotCountButAddUp) {
  EXPECT_EQ(stops_after({.patience = 2, .least_gain = 0.5}, "val_loss", {3, 2.9, 2.8, 1}), 3);
  EXPECT_EQ(stops_after({.patience = 2, .least_gain = 0.15}, "val_loss", {3, 2.9, 2.8, 2.7, 2.6}), 0);
}

TEST(EarlyStopping, OtherValuesByTheirNames) {
  EXPECT_EQ(stops_after({.patience = 1, .monitor = "val_accuracy"}, "val_accuracy", {0.5, 0.6, 0.55}), 3);
  EXPECT_EQ(stops_after({.patience = 1, .monitor = "val_perplexity"}, "val_perplexity", {90, 80, 85}), 3);
  EXPECT_EQ(stops_after({.patience = 1, .monitor = "loss"}, "loss", {3, 2, 1}), 0);
}

TEST(EarlyStopping, NotANumberIsNoProgress) {
  EXPECT_EQ(stops_after({.patience = 2}, "val_loss", {3, std::nan(""), std::nan(""), 1}), 3);
}

TEST(EarlyStopping, SaysWhy) {
  SessionDouble session;
  const CallbackPtr callback = early_stopping({.patience = 1});
  session.do_epoch(*callback, {{"val_loss", 1}});
  session.do_epoch(*callback, {{"val_loss", 2}});
  EXPECT_EQ(session.stopped(), "no better val_loss for 1 epoch");
}

TEST(EarlyStopping, RemembersAcrossARestart) {
  SessionDouble session;
  const CallbackPtr first = early_stopping({.patience = 2}), second = early_stopping({.patience = 2});
  session.do_epoch(*first, {{"val_loss", 1}});
  session.do_epoch(*first, {{"val_loss", 2}});
  EXPECT_EQ(session.stopped(), "");
  second->restore(first->state());
  session.do_epoch(*second, {{"val_loss", 2}});
  EXPECT_EQ(session.stopped(), "no better val_loss for 2 epochs");
  EXPECT_THROW(second->restore({1, 2, 3}), Error);
}

TEST(EarlyStopping, UnknownValuesAndOptions) {
  EXPECT_THROW(early_stopping({.patience = 0}), Error);
  EXPECT_THROW(early_stopping({.least_gain = std::nan("")}), Error);
  SessionDouble session;
  const CallbackPtr callback = early_stopping({.monitor = "val_acuracy"});
  try {
    session.do_epoch(*callback, {{"val_loss", 1}, {"val_accuracy", 1}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("Did you mean 'val_accuracy'?"), std::string::npos) << error.what();
  }
}

TEST(Results, ATableOfAllEpochs) {
  History history;
  history.epochs = {{.epoch = 1, .seconds = 2.5, .rate = 0.001, .values = {{"loss", 0.75}, {"a,\"b\"", 1}}},
                    {.epoch = 2, .seconds = 3, .rate = 1e-5, .values = {{"loss", 0.5}, {"val_loss", 0.625}}}};
  EXPECT_EQ(results_csv(history),
            "epoch,seconds,rate,loss,\"a,\"\"b\"\"\",val_loss\n"
            "1,2.5,0.001,0.75,1,nan\n"
            "2,3,1e-05,0.5,nan,0.625\n");
  EXPECT_EQ(results_csv({}), "epoch,seconds,rate\n");
  EXPECT_EQ(history.epochs[0].value("loss"), 0.75);
  EXPECT_TRUE(std::isnan(history.epochs[0].value("accuracy")));
}

TEST(CsvLog, IsTheTableAfterEveryEpoch) {
  const std::string path = testing::TempDir() + "varve_csv_log_test.csv";
  SessionDouble session;
  const CallbackPtr callback = csv_log(path);
  for (const double loss : {3.0, 2.0}) {
    session.do_epoch(*callback, {{"val_loss", loss}});
    EXPECT_EQ(load_text(path), results_csv(session.history()));
  }
  std::filesystem::remove(path);
  EXPECT_THROW(csv_log(""), Error);
}

TEST(Each, CallsAtStepsOrEpochs) {
  SessionDouble session;
  int steps = 0, epochs = 0;
  const CallbackPtr step = each_step([&](Session& s) { steps += static_cast<int>(s.loss()); });
  const CallbackPtr epoch = each_epoch([&](Session& s) { epochs += s.epoch(); });
  for (const CallbackPtr& callback : {step, epoch}) {
    session.do_step(*callback, 10);
    session.do_epoch(*callback, {});
  }
  EXPECT_EQ(steps, 10);
  EXPECT_EQ(epochs, 2);
  EXPECT_THROW(each_step(nullptr), Error);
}

}  // namespace
}  // namespace varve::train
