#include "bench/report/table.h"

#include <algorithm>
#include <string_view>

#include "page/markup.h"

namespace varve::bench {
namespace {

using page::escaped;

std::string class_of(const Cell& cell, std::size_t column, const Table& table) {
  std::string names = column == 0 ? "k w" : column < table.words ? "w" : "";
  const auto add = [&](const char* name) { names += (names.empty() ? "" : " ") + std::string(name); };
  switch (cell.tone) {
    case Tone::ahead:
      add("ahead");
      break;
    case Tone::behind:
      add("behind");
      break;
    case Tone::theirs:
      add("theirs");
      break;
    case Tone::absent:
      add("absent");
      break;
    case Tone::plain:
      break;
  }
  return names.empty() ? "" : " class=\"" + names + "\"";
}

std::string plain_text(const Cell& cell) {
  std::string text = cell.text;
  if (!cell.small.empty()) text += (text.empty() ? "" : " ") + ("(" + cell.small + ")");
  if (cell.tone == Tone::theirs && !text.empty()) text += "†";
  return text;
}

std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

bool has_theirs(const Table& table) {
  for (const auto& row : table.rows)
    for (const Cell& cell : row)
      if (cell.tone == Tone::theirs) return true;
  return false;
}

const char* const kNoteOnTheirs = "† the study's own figure: other machines, other years.";

bool same(const Cell& a, const Cell& b) { return a.text == b.text && a.small == b.small; }

// How many rows the first cell of this one stands for; 0: the one above stands for it.
std::size_t group_at(const Table& table, std::size_t row) {
  const auto& rows = table.rows;
  if (!table.grouped || rows[row].empty()) return 1;
  const auto joined = [&](std::size_t i) {
    return i > 0 && !rows[i].empty() && !rows[i - 1].empty() && same(rows[i][0], rows[i - 1][0]);
  };
  if (joined(row)) return 0;
  std::size_t count = 1;
  while (row + count < rows.size() && joined(row + count)) ++count;
  return count;
}

std::string cell_html(const Table& table, std::size_t row, std::size_t column) {
  const Cell& cell = table.rows[row][column];
  const std::size_t span = column == 0 ? group_at(table, row) : 1;
  if (span == 0) return "";
  std::string html = "<td" + class_of(cell, column, table) +
                     (span > 1 ? " rowspan=\"" + std::to_string(span) + "\"" : "") + ">" + escaped(cell.text);
  for (std::size_t i = 0; i < cell.links.size(); ++i) {
    const auto& [text, to] = cell.links[i];
    html += i == 0 ? "" : "<br/>";
    html += to.empty() ? escaped(text) : "<a href=\"" + escaped(to) + "\">" + escaped(text) + "</a>";
  }
  if (!cell.small.empty()) html += " <small>" + escaped(cell.small) + "</small>";
  return html + "</td>";
}

}  // namespace

std::string markdown_text(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (std::string_view("|\\`*_[").find(c) != std::string_view::npos) safe += '\\';
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    safe += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : control ? " " : std::string(1, c);
  }
  return safe;
}

Cell absent(const std::string& why) { return {why, "", Tone::absent}; }

std::string table_html(const Table& table) {
  if (table.head.empty()) return "";
  std::string html = "<figure>\n";
  if (!table.caption.empty()) html += "<figcaption>" + escaped(table.caption) + "</figcaption>\n";
  html += "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>";
  for (std::size_t i = 0; i < table.head.size(); ++i)
    html += "<th scope=\"col\"" +
            std::string(i == 0            ? " class=\"k w\""
                        : i < table.words ? " class=\"w\""
                                          : "") +
            ">" + escaped(table.head[i]) + "</th>";
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    html += "<tr>";
    for (std::size_t i = 0; i < table.rows[row].size(); ++i) html += cell_html(table, row, i);
    html += "</tr>\n";
  }
  html += "</tbody></table></div>\n";
  if (has_theirs(table)) html += std::string("<p class=\"note\">") + kNoteOnTheirs + "</p>\n";
  if (!table.note.empty()) html += "<p class=\"note\">" + escaped(table.note) + "</p>\n";
  return html + "</figure>\n";
}

std::string table_markdown(const Table& table) {
  if (table.head.empty()) return "";
  std::string text = table.caption.empty() ? "" : "**" + markdown_text(table.caption) + "**\n\n";
  for (const std::string& head : table.head) text += "| " + markdown_text(head) + " ";
  text += "|\n";
  for (std::size_t i = 0; i < table.head.size(); ++i) text += i < table.words ? "|---" : "|---:";
  text += "|\n";
  for (const auto& row : table.rows) {
    for (const Cell& cell : row) {
      const std::string words = markdown_text(plain_text(cell));
      const bool strong = cell.tone == Tone::ahead || cell.tone == Tone::behind;
      text += "| " + (strong ? "**" + words + "**" : words);
      for (std::size_t i = 0; i < cell.links.size(); ++i) {
        const std::string name = markdown_text(cell.links[i].text);
        text += i == 0 ? "" : ", ";
        text += cell.links[i].to.empty() ? name : "[" + name + "](" + cell.links[i].to + ")";
      }
      text += " ";
    }
    text += "|\n";
  }
  if (has_theirs(table)) text += std::string("\n") + kNoteOnTheirs + "\n";
  if (!table.note.empty()) text += "\n" + markdown_text(table.note) + "\n";
  return text + "\n";
}

std::string table_text(const Table& table) {
  std::vector<std::size_t> widths;
  for (const std::string& head : table.head) widths.push_back(columns_of(head));
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < std::min(row.size(), widths.size()); ++i)
      widths[i] = std::max(widths[i], columns_of(plain_text(row[i])));
  const auto line = [&](const auto& text_of, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < std::min(count, widths.size()); ++i) {
      const std::string words = text_of(i), space(widths[i] - columns_of(words), ' ');
      text += (i == 0 ? "" : "  ") + (i < table.words ? words + space : space + words);
    }
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string text = table.caption.empty() ? "" : table.caption + "\n\n";
  text += line([&](std::size_t i) { return table.head[i]; }, table.head.size());
  for (const auto& row : table.rows) text += line([&](std::size_t i) { return plain_text(row[i]); }, row.size());
  if (has_theirs(table)) text += std::string(kNoteOnTheirs) + "\n";
  if (!table.note.empty()) text += table.note + "\n";
  return text;
}

std::string section_html(const Section& section) {
  std::string html = "<section id=\"" + escaped(section.id) + "\">\n<h2>" + escaped(section.title) + "</h2>\n";
  if (!section.intro.empty()) html += "<p>" + escaped(section.intro) + "</p>\n";
  for (const Block& block : section.blocks) {
    const std::string inside = block.html + table_html(block.table);
    if (block.folded.empty())
      html += inside;
    else
      html += "<details><summary>" + escaped(block.folded) + "</summary>\n" + inside + "</details>\n";
  }
  return html + "</section>\n";
}

std::string section_markdown(const Section& section, int level) {
  std::string tables;
  for (const Block& block : section.blocks) {
    const std::string table = table_markdown(block.table);
    if (table.empty()) continue;
    tables += block.folded.empty()
                  ? table
                  : "<details><summary>" + escaped(block.folded) + "</summary>\n\n" + table + "</details>\n\n";
  }
  if (tables.empty()) return "";
  return std::string(static_cast<std::size_t>(level), '#') + " " + section.title + "\n\n" +
         (section.intro.empty() ? "" : section.intro + "\n\n") + tables;
}

}  // namespace varve::bench
