// The report says what the records say: no less, no more, and nothing that a file smuggles in.
#include "bench/report/report.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "bench/report/made_up.h"
#include "bench/report/qualities.h"
#include "bench/report/sections.h"
#include "page/markup.h"
#include "temporary_folder.h"
#include "text_checks.h"
#include "varve/io.h"

namespace varve::bench {
namespace {

using test::contains;
using test::occurrences;

Record timed(const std::string& framework, const std::vector<double>& samples) {
  Record r = plain_record();
  r.framework = framework, r.processes = {samples}, r.modes = {"plain"};
  summarize(r);
  return r;
}
const std::vector<double> kTen = {10, 10, 10.1, 9.9, 10, 10.1, 9.9, 10, 10, 10};
std::vector<double> by(double factor) {
  std::vector<double> samples = kTen;
  for (double& ms : samples) ms *= factor;
  return samples;
}

TEST(Report, TheBestPeerIsTheFastestThatRan) {
  Record failed = timed("jax", by(0.1));
  failed.status = "failed";
  const Facts facts({timed("varve", kTen), timed("torch", by(2)), timed("keras-tensorflow", by(1.5)), failed});
  const Comparison row = facts.main_comparisons("step", facts.main_places("step").at(0)).at(0);
  EXPECT_EQ(row.best_peer()->framework, "keras-tensorflow");
  EXPECT_NEAR(row.ratio(), 1.5, 1e-9);
  EXPECT_EQ(verdict(row), Verdict::ahead);
}

TEST(Report, PythonIsNoPeer) {
  const Facts facts({timed("varve", kTen), timed("varve-python", by(0.5)), timed("torch", by(2))});
  const Comparison row = facts.main_comparisons("step", facts.main_places("step").at(0)).at(0);
  EXPECT_EQ(row.best_peer()->framework, "torch");
  const Facts alone({timed("varve", kTen), timed("varve-python", by(1.1))});
  EXPECT_TRUE(contains(report_page(alone), "without a peer to compare"));
  EXPECT_TRUE(contains(report_page(alone), "Varve, Python"));
}

TEST(Report, ALossIsShownLikeAWin) {
  for (const double factor : {1.6, 0.6}) {
    const Facts facts({timed("varve", kTen), timed("torch", by(factor))});
    const std::string page = report_page(facts), markdown = report_markdown(facts);
    const char* kind = factor > 1 ? "ahead" : "behind";
    EXPECT_TRUE(contains(page, std::string("<li class=\"") + kind + "\"><span class=\"what\">cnn-mnist"));
    EXPECT_TRUE(contains(page, std::string("<li class=\"") + kind + "\"><b>1</b>"));
    EXPECT_TRUE(contains(page, factor > 1 ? "faster than PyTorch" : "slower than PyTorch"));
    EXPECT_TRUE(contains(markdown, factor > 1 ? "**1.60× (1." : "**0.60× (0."));
  }
  const Facts level({timed("varve", kTen), timed("torch", kTen)});
  EXPECT_TRUE(contains(report_page(level), "level with PyTorch"));
}

TEST(Report, NobodyToCompareWithIsNoVictory) {
  const Facts alone({timed("varve", kTen)});
  EXPECT_FALSE(contains(report_page(alone), "geometric mean"));
  EXPECT_TRUE(contains(report_page(alone), "without a peer to compare"));
  EXPECT_TRUE(contains(report_markdown(alone), "No other framework to compare with"));
}

TEST(Report, TheLaterOfTwoRecordsCounts) {
  Record old = timed("varve", by(3)), fresh = timed("varve", kTen);
  old.time = "2026-01-01T00:00:00Z", fresh.time = "2026-02-01T00:00:00Z";
  for (const auto& records : {std::vector{old, fresh}, std::vector{fresh, old}}) {
    const Facts facts(records);
    ASSERT_EQ(facts.all().size(), 1u);
    EXPECT_NEAR(facts.all()[0].ms_median, 10, 0.1);
  }
}

// Varve alone, measured later at the same setting, does not come between Varve and its peers.
TEST(Report, ARatioIsOfOneRun) {
  Record varve = timed("varve", kTen), torch = timed("torch", by(2)), later = timed("varve", by(4));
  varve.time = torch.time = "2026-01-01T00:00:00Z", later.time = "2026-02-01T00:00:00Z";
  later.command = "varve bench step frameworks=varve";
  const auto ratio = [](const Facts& facts) {
    const auto rows = facts.main_comparisons("step", facts.main_places("step").at(0));
    return rows.at(0).both() ? rows[0].ratio() : 0;
  };
  EXPECT_NEAR(ratio(Facts({varve, torch, later})), 2, 1e-9);
  EXPECT_NEAR(ratio(Facts({later, torch, varve})), 2, 1e-9);
  // A later run with a peer counts, and takes nothing from one of another commit.
  Record jax = timed("jax", by(1.2)), fresh = timed("torch", by(6));
  jax.command = "another", jax.time = "2026-01-01T00:00:00Z";
  fresh.time = later.time, fresh.command = later.command, later.commit = fresh.commit = "new";
  EXPECT_NEAR(ratio(Facts({varve, torch, jax, later, fresh})), 1.5, 1e-9);
  EXPECT_NEAR(ratio(Facts({varve, torch, jax})), 1.2, 1e-9);  // of the same commit: it is the best peer
}

TEST(Report, WhatWasNotCheckedIsListedAndNotUsed) {
  Record varve = timed("varve", kTen), torch = timed("torch", by(2)), other = timed("torch", by(3));
  other.workload = "fcn5", other.verified = false;
  Record alone = other;
  alone.framework = "varve", alone.processes = {kTen};
  summarize(alone);
  const Facts facts({varve, torch, other, alone});
  EXPECT_EQ(facts.all().size(), 2u);
  for (const std::string& text : {report_page(facts), report_markdown(facts)}) {
    EXPECT_TRUE(contains(text, "Not measured with the check on"));
    EXPECT_TRUE(contains(text, "fcn5 (batch 128)"));
    EXPECT_FALSE(contains(text, "3.00×"));
  }
  const Facts nothing({other, alone});
  EXPECT_TRUE(contains(report_markdown(nothing), "## " + machine_name(other)));
  EXPECT_FALSE(contains(report_markdown(Facts({varve, torch})), "with the check on"));
}

TEST(Report, MarkdownHasASectionForEachMachine) {
  const Facts facts(made_up_records({.machines = 2}));
  const std::string text = report_markdown(facts);
  const std::size_t first = text.find("\n## " + facts.machines()[0]), second = text.find("\n## " + facts.machines()[1]);
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(second, std::string::npos);
  EXPECT_EQ(occurrences(text.substr(first, second - first), "### Training step"), 1u);
  EXPECT_EQ(occurrences(text.substr(second), "### Training step"), 1u);
}

TEST(Report, TheTableOfRatiosNamesTheWorst) {
  Record varve = timed("varve", kTen), torch = timed("torch", by(2));
  Record slow = varve, faster = timed("torch", by(0.5));
  slow.workload = faster.workload = "gpt-small";
  const std::string text = report_markdown(Facts({varve, torch, slow, faster}));
  EXPECT_TRUE(contains(text, "| 2 | 1 | 0 | 1 | 1.00× | 0.50× (gpt-small) | 2.00× (cnn-mnist) |"))
      << text.substr(0, 900);
}

TEST(Report, MachinesStandSideBySide) {
  const Facts facts(made_up_records({.machines = 2}));
  ASSERT_EQ(facts.machines().size(), 2u);
  const std::string page = report_page(facts);
  for (const std::string& machine : facts.machines()) EXPECT_TRUE(contains(page, page::escaped(machine))) << machine;
}

TEST(Report, EveryPartIsThere) {
  const std::string page = report_page(Facts(made_up_records()));
  for (const char* id : {"steps", "threads", "batches", "memory", "utilisation", "training", "prediction", "parts",
                         "ablations", "gaps", "studies", "principles", "survey", "origins"})
    EXPECT_TRUE(contains(page, std::string("<section id=\"") + id + "\">")) << id;
  EXPECT_TRUE(contains(page, "out of memory"));
  EXPECT_TRUE(contains(page, "no transformer in this adapter"));
  EXPECT_TRUE(contains(page, "fused update"));
}

TEST(Report, StandsAlone) {
  const std::string page = report_page(Facts(made_up_records()));
  EXPECT_EQ(occurrences(page, "http"), occurrences(page, "xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_EQ(occurrences(page, "<script"), 0u);
  EXPECT_EQ(occurrences(page, "url("), 0u);
  EXPECT_FALSE(contains(page, "nan") || contains(page, "inf%"));
}

TEST(Report, NoRecordsIsAPageToo) {
  const Facts none({});
  EXPECT_TRUE(contains(report_page(none), "CNTK 2018†"));
  EXPECT_FALSE(report_markdown(none).empty());
}

TEST(Report, NamesAreEscaped) {
  const std::string evil = "<script>alert(1)</script>\"'|`";
  Record r = timed("varve", kTen), peer = timed(evil, by(2)), gone = timed("torch", kTen);
  r.workload = peer.workload = gone.workload = evil;
  r.command = r.version = peer.version = r.commit = r.mode = evil;
  r.machine["cpu"] = peer.machine["cpu"] = gone.machine["cpu"] = evil;
  r.flags = {{evil, evil}};
  gone.status = "failed", gone.reason = evil;
  const Facts facts({r, peer, gone});
  const std::string page = report_page(facts, {.title = evil, .problems = {evil}});
  EXPECT_EQ(occurrences(page, "<script"), 0u);
  EXPECT_TRUE(contains(page, "&lt;script&gt;alert(1)"));
  EXPECT_EQ(occurrences(report_markdown(facts), "<script"), 0u);
}

TEST(Report, LinesThatAreNoRecordsAreNamed) {
  std::string lying = to_json(timed("torch", by(2))).dump();
  const std::size_t at = lying.find("\"ms_median\":");
  lying.replace(at, lying.find(',', at) - at, "\"ms_median\":1.0");
  const std::string good = to_json(timed("varve", kTen)).dump();
  const Collected found =
      collect_text(good + "\n\n" + lying + "\n[]\n{\"schema\":1}\n" + good.substr(0, good.size() / 2), "r.jsonl");
  EXPECT_EQ(found.records.size(), 1u);
  ASSERT_EQ(found.problems.size(), 4u);
  EXPECT_TRUE(contains(found.problems[0], "r.jsonl, line 3: ")) << found.problems[0];
  EXPECT_TRUE(contains(found.problems[0], "ms_median")) << found.problems[0];
  EXPECT_TRUE(contains(found.problems[3], "line 6: ")) << found.problems[3];
  const std::string page = report_page(Facts(found.records), {.problems = found.problems});
  EXPECT_TRUE(contains(page, "<b>4 lines were no records</b>"));
}

TEST(Report, ARecordAfterHalfALineIsNotLost) {
  test::TemporaryFolder folder;
  const std::string path = folder / "r.jsonl";
  save_text(path, "{\"schema\":1,\"ki");
  RecordFile(path).add(timed("varve", kTen));
  RecordFile(path).add(timed("torch", kTen));
  const Collected found = collect({path});
  EXPECT_EQ(found.records.size(), 2u);
  EXPECT_EQ(found.problems.size(), 1u);
}

// What a field of the right name may hold.
TEST(Report, StrangeDetailsDoNotBreakIt) {
  using nlohmann::ordered_json;
  for (const ordered_json& details :
       {ordered_json{{"runs", 5}}, ordered_json{{"runs", {1, nullptr, {{"epochs", {{{"seconds", "x"}}, 4}}}}}},
        ordered_json{{"runs", {{{"train_seconds", -1}, {"test_accuracy", "high"}, {"epochs", "many"}}}}},
        ordered_json{{"without", 3}}, ordered_json{{"forward_ms", {{"a", 1}}}, {"gradient_ms", "long"}}})
    for (const char* kind : {"step", "train", "parts", "ablate", "infer"}) {
      Record r = timed("varve", kTen);
      r.kind = kind, r.details = details, r.machine["cores"] = "two", r.gpu = {{"name", 7}}, r.batch = 1;
      const Facts facts({r});
      EXPECT_TRUE(contains(report_page(facts), "</html>"));
      EXPECT_FALSE(report_markdown(facts).empty());
    }
}

TEST(Report, EveryCheckExists) {
  const std::filesystem::path root = std::filesystem::path(VARVE_TESTS_DIR).parent_path();
  EXPECT_EQ(principles().size(), 7u);
  for (const Principle& principle : principles())
    for (const std::string& check : principle.checks) EXPECT_TRUE(std::filesystem::exists(root / check)) << check;
  EXPECT_EQ(hardware_metrics().size(), 12u);
  EXPECT_EQ(surveyed_frameworks().size(), 16u);
}

TEST(Report, PrinciplesAreCheckedAgainstTheRecords) {
  Record varve = timed("varve", kTen), torch = timed("torch", by(2));
  torch.parameters = varve.parameters + 1;
  const auto holds = [](const Facts& facts, const std::string& name) {
    for (const Principle& principle : principles())
      if (principle.name == name) return principle.evidence(facts).holds;
    return Holds::unknown;
  };
  EXPECT_EQ(holds(Facts({varve, torch}), "Equity"), Holds::no);
  torch.parameters = varve.parameters;
  EXPECT_EQ(holds(Facts({varve, torch}), "Equity"), Holds::yes);
  EXPECT_EQ(holds(Facts({varve, torch}), "Repeatability"), Holds::yes);
  EXPECT_EQ(holds(Facts({timed("varve", {1, 2})}), "Repeatability"), Holds::no);
  varve.command = "";
  EXPECT_EQ(holds(Facts({varve}), "Transparency"), Holds::no);
  EXPECT_EQ(holds(Facts({}), "Transparency"), Holds::unknown);
}

TEST(Report, NumbersForPeople) {
  EXPECT_EQ(short_number(0.0794), "0.0794");
  EXPECT_EQ(short_number(4.561), "4.56");
  EXPECT_EQ(short_number(42.13), "42.1");
  EXPECT_EQ(short_number(426.4), "426");
  EXPECT_EQ(short_number(1209.6), "1,210");
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(times(1.518), "1.52×");
}

TEST(Report, LinksLeadToTheSourcesFromInsideThem) {
  const std::filesystem::path root = std::filesystem::path(VARVE_TESTS_DIR).parent_path();
  EXPECT_EQ(way_to_sources((root / "bench/results/report.html").string()), "../../");
  EXPECT_EQ(way_to_sources("/report.html"), "");
}

}  // namespace
}  // namespace varve::bench
