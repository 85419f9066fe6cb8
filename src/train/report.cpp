// The page a run leaves behind.
#include "train/report.h"

#include <algorithm>
#include <cmath>

#include "page/chart.h"
#include "page/document.h"
#include "page/markup.h"
#include "page/numbers.h"
#include "train/progress.h"
#include "varve/compile.h"

namespace varve::train {
namespace {

using namespace page;

constexpr std::size_t kMostRows = 200;  // of a table

std::string cell(const std::string& text) { return "<td>" + escaped(text) + "</td>"; }
std::string heading(const std::string& text) { return "<th scope=\"col\">" + escaped(text) + "</th>"; }
std::string plain(const std::string& title, const std::string& text) {
  return text.empty() ? "" : section(title, "<pre>" + escaped(text) + "</pre>\n");
}

std::string readable(std::string name) {
  if (name.starts_with("val_")) name = "validation " + name.substr(4);
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string tiles(const Report& report) {
  const History& history = report.history;
  std::string list = "<ul class=\"tiles\">\n";
  if (history.best_epoch > 0)
    list += tile(value_text(history.monitor, history.best),
                 "best " + readable(history.monitor) + ", epoch " + std::to_string(history.best_epoch));
  for (const auto& [name, value] : report.test) list += tile(value_text(name, value), "test " + readable(name));
  list += tile(std::to_string(history.epochs.size()), history.epochs.size() == 1 ? "epoch" : "epochs");
  if (history.seconds > 0) list += tile(duration_text(history.seconds), "of training");
  if (history.peak_bytes > 0) list += tile(bytes(history.peak_bytes), "peak in a step");
  return list + "</ul>\n";
}

std::string opening(const Report& report) {
  std::string text = "<header>\n<h1>" + escaped(report.title) + "</h1>\n";
  if (report.history.interrupted) text += "<p>Interrupted: the last checkpoint can be resumed.</p>\n";
  if (!report.history.stopped.empty()) text += "<p>Ended early: " + escaped(report.history.stopped) + ".</p>\n";
  return text + tiles(report) + "</header>\n";
}

std::string curves(const History& history) {
  std::string charts = "<div class=\"charts\">\n";
  for (const std::string& chart : curves_svg(history)) charts += chart;
  return charts + "</div>\n";
}

std::string epoch_table(const History& history) {
  const std::vector<std::string> names = value_names(history);
  std::string table = "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>" + heading("epoch") + heading("time") +
                      heading("rate");
  for (const std::string& name : names) table += heading(readable(name));
  table += "</tr></thead>\n<tbody>\n";
  for (const Epoch& epoch : history.epochs) {
    table += epoch.epoch == history.best_epoch ? "<tr class=\"best\">" : "<tr>";
    table += cell(std::to_string(epoch.epoch)) + cell(duration_text(epoch.seconds)) + cell(general(epoch.rate, 3));
    for (const std::string& name : names) {
      const double value = epoch.value(name);
      table += cell(std::isnan(value) ? "–" : value_text(name, value));
    }
    table += "</tr>\n";
  }
  return table + "</tbody></table></div>\n";
}

std::string class_table(const Report& report, std::int64_t classes) {
  const std::vector<ClassScores> scores = class_scores(report.confusion, classes);
  std::string table = "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>" + heading("class") +
                      heading("precision") + heading("recall") + heading("F1") + heading("samples") +
                      "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < std::min(scores.size(), kMostRows); ++i) {
    const std::string name = i < report.classes.size() ? report.classes[i] : std::to_string(i);
    table += "<tr>" + cell(shortened(name, 40)) + cell(fixed(scores[i].precision, 4)) +
             cell(fixed(scores[i].recall, 4)) + cell(fixed(scores[i].f1, 4)) + cell(general(scores[i].support, 12)) +
             "</tr>\n";
  }
  table += "</tbody></table></div>\n";
  if (scores.size() > kMostRows) table += "<p>The first " + std::to_string(kMostRows) + " classes.</p>\n";
  return table;
}

std::string confusion_section(const Report& report) {
  const auto classes = static_cast<std::int64_t>(std::llround(std::sqrt(report.confusion.size())));
  if (classes < 2) return "";
  return section("Classes", "<div class=\"side\">\n" + confusion_svg(report.confusion, report.classes) +
                                class_table(report, classes) + "</div>\n");
}

constexpr const char* kWorstStyle = R"css(
.worst { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: 0.75rem; }
.worst.words { grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr)); }
.worst figure { margin: 0; padding: 0.7rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.worst img { display: block; width: 100%; image-rendering: pixelated; border-radius: 4px; }
.worst blockquote { margin: 0 0 0.4rem; font-size: 0.85rem; overflow-wrap: anywhere; }
.worst figcaption { font-size: 0.85rem; color: var(--muted); overflow-wrap: anywhere; }
.worst b { color: var(--ink); }
)css";

std::string worst_section(const std::vector<WorstSample>& samples) {
  if (samples.empty()) return "";
  std::string body = samples[0].png.empty() ? "<div class=\"worst words\">\n" : "<div class=\"worst\">\n";
  for (const WorstSample& sample : samples) {
    const std::string truth = escaped(shortened(sample.truth, 60)),
                      predicted = escaped(shortened(sample.predicted, 60));
    body += "<figure>";
    if (!sample.png.empty())
      body += "<img alt=\"a sample of " + truth + "\" src=\"data:image/png;base64," + sample.png + "\">";
    if (!sample.text.empty()) body += "<blockquote>" + escaped(shortened(sample.text, 300)) + "</blockquote>";
    body += "<figcaption>true <b>" + truth + "</b>, predicted <b>" + predicted + "</b>, loss " +
            value_text("loss", sample.loss) + "</figcaption></figure>\n";
  }
  return section("Worst predictions", body + "</div>\n");
}

}  // namespace

// Training and validation of one value share a chart.
std::vector<std::string> curves_svg(const History& history) {
  std::vector<double> epochs, rates;
  for (const Epoch& epoch : history.epochs) {
    epochs.push_back(epoch.epoch);
    rates.push_back(epoch.rate);
  }
  std::vector<std::string> titles;
  for (const std::string& name : value_names(history)) {
    const std::string title = name.starts_with("val_") ? name.substr(4) : name;
    if (std::find(titles.begin(), titles.end(), title) == titles.end()) titles.push_back(title);
  }
  ChartOptions options = {.title = "", .x_label = "epoch"};
  options.mark_x = history.best_epoch;
  options.mark_label = "best";
  std::vector<std::string> charts;
  for (const std::string& title : titles) {
    std::vector<Series> series = {{"training", epochs, {}}, {"validation", epochs, {}}};
    for (const Epoch& epoch : history.epochs) {
      series[0].y.push_back(epoch.value(title));
      series[1].y.push_back(epoch.value("val_" + title));
    }
    std::erase_if(series, [](const Series& each) {
      return std::all_of(each.y.begin(), each.y.end(), [](double y) { return std::isnan(y); });
    });
    options.title = readable(title);
    charts.push_back(line_chart_svg(series, options));
  }
  options.title = "learning rate";
  charts.push_back(line_chart_svg({{"rate", epochs, rates}}, options));
  return charts;
}

std::string report_html(const Report& report) {
  std::string body = opening(report);
  if (!report.history.epochs.empty()) body += section("Curves", curves(report.history));
  body += confusion_section(report) + worst_section(report.worst);
  if (!report.history.epochs.empty()) body += section("Epochs", epoch_table(report.history));
  body += plain("Network", report.summary) + plain("Configuration", report.config) +
          plain("Environment", report.environment);
  return html_document({.title = report.title, .style = report.worst.empty() ? "" : kWorstStyle, .body = body});
}

}  // namespace varve::train
