// Tables and folders from the command line: what was fitted in training belongs to the run.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.h"
#include "varve/data.h"
#include "varve/io.h"

#ifdef VARVE_CLI_PATH
namespace {

using nlohmann::json;
using namespace varve::test;

struct House {
  double area;
  int rooms;
  const char* wall;
  double price() const {
    const std::string kind = wall;
    return 50'000 + 2'000 * area + 5'000 * rooms + (kind == "wood" ? -30'000 : kind == "stone" ? 40'000 : 0);
  }
  std::string row() const { return std::to_string(area) + "," + std::to_string(rooms) + "," + wall; }
};

// Houses from `least` square metres on: other files are of another scale.
std::vector<House> houses(int count, double least, std::uint64_t seed) {
  std::vector<House> all;
  const char* walls[] = {"brick", "stone", "wood"};
  for (int i = 0; i < count; ++i) {
    varve::data::Random random(seed, 0, static_cast<std::uint64_t>(i));
    all.push_back({random.uniform(least, 200), static_cast<int>(1 + random.integer(6)), walls[random.integer(3)]});
  }
  return all;
}

void write_table(const std::string& path, const std::vector<House>& all) {
  std::ofstream file(path);
  file << "area,rooms,wall,price\n";
  for (const House& house : all) file << house.row() << "," << std::to_string(house.price()) << "\n";
}

const char* const kHousesNet = R"(input = [5]
[[layer]]
dense = {out = 32, activation = "relu"}
[[layer]]
dense = 1
[train]
data = "csv:houses.csv"
loss = "mse"
epochs = 60
batch = 32
optimizer = {adam = {rate = 1e-2}}
)";

json asked(const std::string& arguments) {
  const Result result = varve_command(arguments + " --json", Streams::out);
  EXPECT_EQ(result.code, 0) << arguments << "\n" << result.out;
  return json::parse(result.out, nullptr, false);
}

// Trained on one file, scored on another, asked about raw rows: all in dollars, whatever it was trained on.
TEST(CliTable, ARegressionAnswersInItsOwnUnit) {
  const Folder folder;
  write_table("houses.csv", houses(400, 40, 1));
  const std::vector<House> others = houses(60, 120, 2);  // large houses only
  write_table("others.csv", others);
  std::ofstream("net.toml") << kHousesNet;
  const Result trained = varve_command("train net.toml --threads=1");
  ASSERT_EQ(trained.code, 0) << trained.out;
  EXPECT_TRUE(contains(trained.out, "the loss is of scaled targets, (price - ")) << trained.out;

  constexpr double kClose = 8'000;  // dollars; prices differ by 100,000
  const json own = asked("eval runs/net-1"), other = asked("eval runs/net-1 data=csv:others.csv");
  EXPECT_LT(own["test_mean_absolute_error"], kClose);
  EXPECT_GT(own["test_mean_absolute_error"], 10);  // not of scaled values
  EXPECT_EQ(own["samples"], 40);
  EXPECT_EQ(other["samples"], 60);  // all of it: none of it was trained with
  EXPECT_LT(other["test_mean_absolute_error"], kClose);

  const json answers = asked("predict runs/net-1 others.csv");
  ASSERT_EQ(answers.size(), 60u);
  double error = 0;
  for (std::size_t i = 0; i < others.size(); ++i)
    error += std::abs(answers[i]["answers"][0]["value"].get<double>() - others[i].price()) / 60;
  EXPECT_NEAR(error, other["test_mean_absolute_error"].get<double>(), 1);
  EXPECT_EQ(answers[0]["input"], "others.csv:2");
  EXPECT_EQ(answers[0]["answers"][0]["name"], "price");

  // A row, with its target or without, and rows from the standard input.
  const House house = {100, 3, "wood"};
  const json one = asked("predict runs/net-1 100,3,wood");
  EXPECT_NEAR(one[0]["answers"][0]["value"], house.price(), kClose);
  EXPECT_EQ(asked("predict runs/net-1 100,3,wood,1")[0]["answers"], one[0]["answers"]);
  std::ofstream("rows.csv") << "wall,id,rooms,area\nwood,7,3,100\nstone,8,3,100\n";  // by name, in any order
  const Result piped = varve_command("predict runs/net-1 - --csv < rows.csv", Streams::out);
  std::istringstream lines(piped.out);
  std::string head, first, second;
  std::getline(lines, head);
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_EQ(head, "input,price");
  EXPECT_TRUE(first.starts_with("standard input:2,")) << first;
  EXPECT_NEAR(std::stod(first.substr(first.find(',') + 1)), one[0]["answers"][0]["value"].get<double>(), 0.5);
  EXPECT_NEAR(std::stod(second.substr(second.find(',') + 1)), (House{100, 3, "stone"}).price(), kClose);

  // Exported weights carry it all.
  ASSERT_EQ(varve_command("export runs/net-1 net.safetensors").code, 0);
  const json exported = asked("eval net.toml weights=net.safetensors data=csv:others.csv");
  EXPECT_EQ(exported["samples"], 60);
  EXPECT_DOUBLE_EQ(exported["test_mean_absolute_error"], other["test_mean_absolute_error"]);
}

TEST(CliTable, SaysWhatDoesNotFitTheRun) {
  const Folder folder;
  write_table("houses.csv", houses(60, 40, 1));
  std::ofstream("net.toml") << kHousesNet;
  ASSERT_EQ(varve_command("train net.toml --threads=1 --quiet epochs=1").code, 0);
  struct Case {
    const char* arguments;
    const char* answer;
  };
  std::ofstream("short.csv") << "area,wall,price\n100,wood,1\n";
  std::ofstream("mud.csv") << "area,rooms,wall,price\n90,3,wood,1\n100,3,mud,1\n";
  std::ofstream("open.csv") << "area,rooms,wall\n90,3,wood\n";
  for (const Case& c :
       {Case{"predict runs/net-1 100,3,wod",
             "\"wod\" is no category of \"wall\" that the training data had. Did you "
             "mean 'wood'? Known: \"brick\", \"stone\", \"wood\"."},
        Case{"predict runs/net-1 100,3", "expected 3 fields"},
        Case{"predict runs/net-1 100,many,wood", "\"many\" in column \"rooms\" is not a number"},
        Case{"predict runs/net-1 100,,wood", "no value for \"rooms\""},
        Case{"predict runs/net-1 nowhere.csv", "there is no such file, and a row has 3 fields: area,rooms,wall"},
        Case{"predict runs/net-1 short.csv", "lacks the column \"rooms\""},
        Case{"predict runs/net-1 mud.csv", "\"mud.csv\", line 3: \"mud\""},
        Case{"eval runs/net-1 data=csv:short.csv", "lacks the column \"rooms\""},
        Case{"eval runs/net-1 data=csv:open.csv", "lacks the column \"price\", the target to compare with"}}) {
    const Result result = varve_command(c.arguments);
    EXPECT_EQ(result.code, 1) << c.arguments;
    EXPECT_TRUE(contains(result.out, c.answer)) << c.arguments << " gave\n" << result.out;
  }
}

// Two classes of plain pictures, dark and light.
void write_pictures(const std::string& folder, const std::vector<std::pair<std::string, int>>& classes) {
  for (const auto& [name, grey] : classes) {
    std::filesystem::create_directories(folder + "/" + name);
    for (int i = 0; i < 12; ++i) {
      varve::Picture picture{.height = 8, .width = 8, .channels = 1};
      picture.pixels.assign(64, static_cast<std::uint8_t>(grey + i));
      varve::save_png(folder + "/" + name + "/" + std::to_string(i) + ".png", picture);
    }
  }
}

const char* const kShadesNet = R"(input = [8, 8, 1]
[[layer]]
flatten = {}
[[layer]]
dense = 2
[train]
data = "folder:shades"
epochs = 30
batch = 4
validation = 0
optimizer = {adam = {rate = 3e-2}}
)";

// Classes of another folder are matched by their names, wherever they stand in the alphabet.
TEST(CliTable, ClassesAreMatchedByName) {
  const Folder folder;
  write_pictures("shades", {{"dark", 10}, {"light", 230}});
  write_pictures("one", {{"light", 230}});  // number 0 here, number 1 of the run
  write_pictures("more", {{"black", 0}, {"dark", 10}});
  std::ofstream("net.toml") << kShadesNet;
  ASSERT_EQ(varve_command("train net.toml --threads=1 --quiet").code, 0);
  const json one = asked("eval runs/net-1 data=folder:one");
  EXPECT_EQ(one["test_accuracy"], 1.0);
  EXPECT_EQ(one["samples"], 12);
  const Result refused = varve_command("eval runs/net-1 data=folder:more");
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(contains(refused.out,
                       "has a class \"black\" that is none of those wanted. It has \"black\", \"dark\"; "
                       "wanted are \"dark\", \"light\"."))
      << refused.out;
}

TEST(CliTable, FoldersArePredictedAtOnce) {
  const Folder folder;
  write_pictures("shades", {{"dark", 10}, {"light", 230}});
  std::ofstream("shades/notes.txt") << "not a picture";
  std::ofstream("net.toml") << kShadesNet;
  ASSERT_EQ(varve_command("train net.toml --threads=1 --quiet").code, 0);
  const Result csv = varve_command("predict runs/net-1 shades --csv", Streams::out);
  std::istringstream lines(csv.out);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "input,prediction,probability");
  int right = 0;
  for (; std::getline(lines, line);) {
    EXPECT_TRUE(contains(line, line.starts_with("shades/dark/") ? ",dark,0." : ",light,0.")) << line;
    ++right;
  }
  EXPECT_EQ(right, 24);
  const Result both = varve_command("predict runs/net-1 shades/dark/1.png shades/light/1.png top=1");
  EXPECT_TRUE(contains(both.out, "shades/dark/1.png ")) << both.out;
  EXPECT_TRUE(contains(varve_command("predict runs/net-1 shades").out, "1 file is no picture that can be read"));
  EXPECT_EQ(asked("predict runs/net-1 - < shades/light/3.png")[0]["answers"][0]["name"], "light");
  EXPECT_EQ(varve_command("predict runs/net-1 - < /dev/null").code, 1);
  EXPECT_EQ(varve_command("predict runs/net-1 shades --csv --json").code, 2);
}

// Data without a network: one is chosen, said, and fits the data.
TEST(CliTable, ANetworkIsChosenForData) {
  const Folder folder;
  write_table("houses.csv", houses(300, 40, 1));
  const Result regression = varve_command("train data=houses.csv epochs=40 rate=5e-3 --threads=1");
  ASSERT_EQ(regression.code, 0) << regression.out;
  EXPECT_TRUE(contains(regression.out, "chosen network: two hidden layers of 64 units, for 5 inputs and a number"))
      << regression.out;
  EXPECT_TRUE(std::filesystem::exists("runs/houses-1/model.json"));
  EXPECT_NEAR(asked("predict runs/houses-1 100,3,wood")[0]["answers"][0]["value"], (House{100, 3, "wood"}).price(),
              20'000);

  const Result classes = varve_command("train data=csv:houses.csv#wall epochs=1 --threads=1");
  EXPECT_TRUE(contains(classes.out, "for 3 inputs and 3 classes")) << classes.out;
  EXPECT_TRUE(contains(classes.out, "test accuracy")) << classes.out;

  write_pictures("shades", {{"dark", 10}, {"light", 230}});
  const Result pictures = varve_command("train data=shades epochs=8 validation=0 --threads=1");
  ASSERT_EQ(pictures.code, 0) << pictures.out;
  EXPECT_TRUE(contains(pictures.out,
                       "chosen network: a convolution of 32 channels, for pictures of 8×8×1 and 2 "
                       "classes"))
      << pictures.out;
  EXPECT_EQ(asked("predict runs/shades-1 shades/light/3.png")[0]["answers"].size(), 2u);
  EXPECT_TRUE(contains(varve_command("train epochs=1").out, "needs a network file"));
  EXPECT_TRUE(contains(varve_command("train data=nothing.csv").out, "nothing.csv"));
  EXPECT_EQ(varve_command("lr-find data=houses.csv steps=20 --threads=1").code, 0);
}

// Few different numbers are classes, unless the loss is of numbers: then answers are numbers too.
TEST(CliTable, ALossOfNumbersKeepsFewNumbersNumbers) {
  const Folder folder;
  std::ofstream file("stars.csv");
  file << "a,stars\n";
  for (int i = 0; i < 120; ++i) file << i % 30 << "," << (i % 30 < 15 ? 100 : 500) << "\n";
  file.close();
  const Result result = varve_command("train data=stars.csv loss=mse epochs=60 rate=5e-3 --threads=1");
  ASSERT_EQ(result.code, 0) << result.out;
  EXPECT_TRUE(contains(result.out, "for 1 input and a number")) << result.out;
  EXPECT_NEAR(asked("predict runs/stars-1 2")[0]["answers"][0]["value"], 100, 60);
  EXPECT_NEAR(asked("predict runs/stars-1 28")[0]["answers"][0]["value"], 500, 60);
  EXPECT_TRUE(contains(varve_command("train data=stars.csv epochs=1 --threads=1").out, "and 2 classes"));
}

TEST(CliTable, TheRateFinderSaysWhenThereIsNoDescent) {
  const Folder folder;
  write_table("houses.csv", houses(300, 40, 1));
  const Result flat = varve_command("lr-find data=houses.csv from=1e-9 to=1e-7 steps=40 --threads=1");
  EXPECT_EQ(flat.code, 0);
  EXPECT_TRUE(contains(flat.out, "no clear descent")) << flat.out;
  EXPECT_FALSE(contains(flat.out, "suggestion: rate=")) << flat.out;
}

TEST(CliTable, WhatCannotBeReadIsCountedAndNamed) {
  const Folder folder;
  write_pictures("shades", {{"dark", 10}, {"light", 230}});
  std::ofstream("shades/dark/scan.tiff") << "not read";
  std::ofstream("net.toml") << kShadesNet;
  const Result trained = varve_command("train net.toml epochs=1 --threads=1");
  EXPECT_TRUE(contains(trained.out, "1 file is no picture that can be read, and was skipped: shades/dark/scan.tiff"))
      << trained.out;
}

}  // namespace
#endif
