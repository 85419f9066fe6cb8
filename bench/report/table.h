// Tables that are written once and shown three ways: on the page, in Markdown, on the terminal.
#pragma once

#include <string>
#include <vector>

namespace varve::bench {

enum class Tone {
  plain,
  ahead,   // Varve is faster
  behind,  // Varve is slower
  theirs,  // a figure of a study: another machine, another year
  absent,  // not measured, out of memory, failed
};

// A file or a page; without a way to it the text alone.
struct Link {
  std::string text, to;
};

struct Cell {
  Cell(std::string words = "", std::string less = "", Tone how = Tone::plain)
      : text(std::move(words)), small(std::move(less)), tone(how) {}
  Cell(const char* words) : text(words) {}
  std::string text;
  std::string small;  // an interval, a remark: beside the text, less prominent
  Tone tone = Tone::plain;
  std::vector<Link> links = {};  // instead of the text
};

struct Table {
  std::string caption = "";
  std::vector<std::string> head;
  std::vector<std::vector<Cell>> rows = {};
  std::size_t words = 1;  // so many columns at the left are words; the others are numbers
  std::string note = "";  // below it
  bool grouped = false;   // on the page, a first cell like the one above it stands for both
};

Cell absent(const std::string& why);  // "not measured" and the like

// Safe in Markdown: a bar would end a cell, a line break the row, an angle begin a tag.
std::string markdown_text(const std::string& text);

std::string table_html(const Table& table);
std::string table_markdown(const Table& table);
std::string table_text(const Table& table);

// What a report is made of. Only the page shows `html`.
struct Block {
  Table table = {};
  std::string html = "";
  std::string folded = "";  // where given, the reader unfolds the block under this title
};
struct Section {
  std::string id, title, intro;
  std::vector<Block> blocks = {};
};
std::string section_html(const Section& section);
std::string section_markdown(const Section& section, int level = 2);  // of its heading

}  // namespace varve::bench
