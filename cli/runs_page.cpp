#include "cli/runs_page.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/text.h"
#include "cli/text.h"
#include "page/chart.h"
#include "page/document.h"
#include "page/markup.h"
#include "varve/io.h"
#include "varve/toml.h"

namespace varve::cli {
namespace {

using train::Epoch;
using train::RunInfo;
using Row = std::vector<std::string>;

// The settings of a run, flat: name, network, sizes, keys of [train].
std::vector<std::pair<std::string, std::string>> settings_of(const RunInfo& run) {
  std::vector<std::pair<std::string, std::string>> all;
  const text::Value document = text::parse_toml(run.config.toml(), run.folder);
  const auto add = [&](const std::string& key, const text::Value& value) {
    const std::string written = value.str();
    all.push_back({key, written.size() > 60 ? written.substr(0, 57) + "..." : written});
  };
  for (const auto& [key, value] : document.fields) {
    if (key == "train" || key == "sizes")
      for (const auto& [inner, each] : value.fields) add(inner, each);
    else
      add(key, value);
  }
  return all;
}

std::string setting_of(const std::vector<std::pair<std::string, std::string>>& all, const std::string& key) {
  for (const auto& [name, value] : all)
    if (name == key) return value;
  return "-";
}

std::string short_value(double value) {
  return std::isfinite(value) ? fixed(value, std::abs(value) >= 100 ? 2 : 4) : "-";
}

void add_settings(std::vector<Row>& rows, const std::vector<RunInfo>& runs) {
  std::vector<std::vector<std::pair<std::string, std::string>>> settings;
  std::vector<std::string> keys;
  for (const RunInfo& run : runs) {
    settings.push_back(settings_of(run));
    for (const auto& [key, value] : settings.back())
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  for (const std::string& key : keys) {
    Row row = {key};
    for (const auto& all : settings) row.push_back(setting_of(all, key));
    if (std::any_of(row.begin() + 1, row.end(), [&](const std::string& cell) { return cell != row[1]; }))
      rows.push_back(row);
  }
}

std::vector<std::string> value_names(const std::vector<RunInfo>& runs) {
  std::vector<std::string> names;
  for (const RunInfo& run : runs)
    for (const Epoch& epoch : run.history.epochs)
      for (const auto& [name, value] : epoch.values)
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

void add_results(std::vector<Row>& rows, const std::vector<RunInfo>& runs) {
  const auto add = [&](const std::string& key, const auto& cell) {
    Row row = {key};
    for (const RunInfo& run : runs) row.push_back(cell(run));
    rows.push_back(row);
  };
  add("state", [](const RunInfo& run) { return name(run.state); });
  add("epochs trained", [](const RunInfo& run) { return cat(run.history.epochs.size()); });
  add("seconds", [](const RunInfo& run) { return fixed(run.history.seconds, 1); });
  add("best epoch", [](const RunInfo& run) { return cat(run.history.best_epoch); });
  for (const std::string& name : value_names(runs))
    add(name, [&](const RunInfo& run) {  // at the best epoch, or the last
      for (const Epoch& epoch : run.history.epochs)
        if (epoch.epoch == run.history.best_epoch) return short_value(epoch.value(name));
      return run.history.epochs.empty() ? "-" : short_value(run.history.epochs.back().value(name));
    });
  std::vector<std::string> tests;
  for (const RunInfo& run : runs)
    for (const auto& [metric, value] : run.test)
      if (std::find(tests.begin(), tests.end(), metric) == tests.end()) tests.push_back(metric);
  for (const std::string& metric : tests)
    add("test " + metric, [&](const RunInfo& run) {
      for (const auto& [name, value] : run.test)
        if (name == metric) return short_value(value);
      return std::string("-");
    });
}

std::string charts(const std::vector<RunInfo>& runs) {
  std::string text = "<div class=\"charts\">\n";
  for (const std::string& value : value_names(runs)) {
    std::vector<page::Series> series;
    for (const RunInfo& run : runs) {
      page::Series line{.name = std::filesystem::path(run.folder).filename().string(), .x = {}, .y = {}};
      for (const Epoch& epoch : run.history.epochs) {
        line.x.push_back(epoch.epoch);
        line.y.push_back(epoch.value(value));
      }
      if (std::any_of(line.y.begin(), line.y.end(), [](double y) { return std::isfinite(y); })) series.push_back(line);
    }
    std::string title = value.starts_with("val_") ? "validation " + value.substr(4) : "training " + value;
    std::replace(title.begin(), title.end(), '_', ' ');
    text += page::line_chart_svg(series, {.title = title, .x_label = "epoch"});
  }
  return text + "</div>\n";
}

std::string table(const std::vector<Row>& rows) {
  std::string text = "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>";
  for (const std::string& cell : rows[0]) text += "<th scope=\"col\">" + page::escaped(cell) + "</th>";
  text += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 1; i < rows.size(); ++i) {
    text += "<tr>";
    for (const std::string& cell : rows[i]) text += "<td>" + page::escaped(cell) + "</td>";
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

}  // namespace

std::vector<Row> comparison(const std::vector<RunInfo>& runs) {
  std::vector<Row> rows(1, Row{""});
  for (const RunInfo& run : runs) rows[0].push_back(run.folder);
  if (runs.size() > 1) add_settings(rows, runs);
  add_results(rows, runs);
  return rows;
}

void save_runs_page(const std::string& path, const std::vector<RunInfo>& runs) {
  const std::string title = cat(runs.size(), runs.size() == 1 ? " run" : " runs");
  save_text(path, page::html_document(
                      {.title = title,
                       .body = "<header>\n<h1>" + title + "</h1>\n</header>\n" + page::section("Curves", charts(runs)) +
                               page::section("Settings that differ, and results", table(comparison(runs)))}));
}

}  // namespace varve::cli
