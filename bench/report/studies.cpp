#include "bench/report/studies.h"

#include "base/text.h"
#include "bench/report/sections.h"
#include "page/markup.h"

namespace varve::bench {
namespace {

const Tool kCntk{"CNTK", "cannot be installed: the last release is 2.7 of 2019, for Python 3.6 and older"};
const Tool kTheano{"Theano", "cannot be installed: development ended in 2017, and it needs a NumPy of that time"};
const Tool kCaffe{"Caffe", "cannot be installed: the last release is 1.0 of 2017, without packages"};
const Tool kTorch7{"Torch7", "cannot be installed: Lua, without releases since 2017; PyTorch took its place"};

std::string study_html(const Study& study) {
  std::string html = "<h3>" + page::escaped(study.citation) + "</h3>\n<p>" + page::escaped(study.asks) + " " +
                     page::escaped(study.machines) + "</p>\n";
  if (study.found.empty()) return html;
  html += "<ul class=\"found\">\n";
  for (const std::string& finding : study.found) html += "<li>" + page::escaped(finding) + "</li>\n";
  return html + "</ul>\n";
}

}  // namespace

const std::vector<Study>& studies() {
  static const std::vector<Study> all = {
      {.name = "shatnawi2018",
       .citation = "Shatnawi et al. 2018, A Comparative Study of Open Source Deep Learning Frameworks",
       .asks = "A convolutional network on MNIST and on CIFAR-10, trained to equal accuracy with 1 to 32 threads and "
               "on a GPU.",
       .machines = "Its table names no machine; it used a laptop (i7-6700HQ, GTX 960M) and a Xeon server with GPUs.",
       .found = {"CNTK was fastest on MNIST and on the GPU, TensorFlow on CIFAR-10 from four threads on; more than "
                 "eight threads "
                 "gained hardly anything."},
       .tools = {kCntk, {"TensorFlow", "measured as Keras on TensorFlow"}, kTheano},
       .tables = shatnawi_tables},
      {.name = "kabakus2020",
       .citation = "Kabakuş 2020, A Comparison of the State-of-the-Art Deep Learning Platforms",
       .asks = "A feed-forward network on MNIST, VGG16 on CIFAR-10 and an LSTM on IMDb: training time, testing time "
               "and accuracy, mean of ten runs.",
       .machines = "Its own machine and data files.",
       .found = {"Keras was ahead for the feed-forward and the convolutional network, PyTorch for the recurrent one "
                 "but in testing time."},
       .tools = {{"Keras", "measured, on TensorFlow"}, {"PyTorch", "measured"}},
       .tables = kabakus_tables},
      {.name = "shi2016",
       .citation = "Shi et al. 2016, Benchmarking State-of-the-Art Deep Learning Software Tools",
       .asks = "Six networks on synthetic data: seconds a mini-batch by threads and by batch size, and which sizes run "
               "out of memory.",
       .machines = "Two CPU and three GPU platforms of 2016. Its figures are per version of tool and are not repeated "
                   "here; its findings are.",
       .found = {"No tool won everywhere.", "16 threads were hardly better than 4 to 8.",
                 "GPUs were 10 to 30 times the best CPU.",
                 "On the CPU CNTK took about half of Torch's time for LSTMs; on the GPU it was far ahead of all."},
       .tools = {kCaffe, kCntk, {"TensorFlow", "measured as Keras on TensorFlow"}, kTorch7},
       .tables = shi_tables}};
  return all;
}

const Study& find_study(const std::string& name) {
  std::vector<std::string> known;
  for (const Study& study : studies()) {
    if (study.name == name) return study;
    known.push_back(study.name);
  }
  throw Error(cat("unknown study '", name, "'.", did_you_mean(name, known), " Known: ", quoted_list(known), "."));
}

Table tools_table(const Study& study) {
  Table table{.caption = "The study's tools today", .head = {"tool", "today"}, .words = 2};
  for (const Tool& tool : study.tools)
    table.rows.push_back({tool.name, tool.today.starts_with("cannot") ? absent(tool.today) : Cell(tool.today)});
  return table;
}

Section studies_section(const Facts& facts) {
  Section section{.id = "studies",
                  .title = "The studies' tables",
                  .intro =
                      "The layouts of the studies, filled with what was measured here. Figures marked † are the "
                      "studies' own, from other machines and other years: they are no race."};
  for (const Study& study : studies()) {
    section.blocks.push_back({.html = study_html(study)});
    for (Table& table : study.tables(facts)) section.blocks.push_back({.table = std::move(table)});
    section.blocks.push_back({.table = tools_table(study)});
  }
  return section;
}

}  // namespace varve::bench
