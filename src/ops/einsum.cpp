// Einstein summation: parsed here, computed by transposes, sums and matrix products.
#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "varve/ops.h"

namespace varve {
namespace {

// Letters are themselves; the axes that "..." stands for are numbered from the last one, past all letters.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 1 << 16;

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}
std::int64_t position(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) - labels.begin();
}

struct Term {
  Tensor tensor;
  Labels labels;  // one for each axis
};

class Parser {
 public:
  Parser(const std::string& equation, const std::vector<Tensor>& operands) : text_(equation), operands_(operands) {}

  void run() {
    while (true) {
      parse_operand();
      if (!take(',')) break;
    }
    if (terms.size() != operands_.size())
      fail(at_, cat("the equation names ", terms.size(), " operands, but ", operands_.size(), " were given"));
    const bool explicit_output = at_ < text_.size();
    if (explicit_output)
      parse_output();
    else
      implicit_output();
  }

  std::vector<Term> terms;
  Labels output;
  std::map<Label, std::int64_t> sizes;

 private:
  // Lists of labels; "..." appears as kEllipsis itself until the rank of its operand is known.
  Labels parse_labels() {
    Labels labels;
    for (skip_spaces(); at_ < text_.size() && text_[at_] != ',' && text_[at_] != '-'; skip_spaces()) {
      const char c = text_[at_];
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (c == '.') {
        if (text_.compare(at_, 3, "...") != 0) fail(at_, "a '.' that is not part of \"...\"");
        if (contains(labels, kEllipsis)) fail(at_, "a second \"...\" in one operand");
        labels.push_back(kEllipsis);
        at_ += 3;
      } else if (letter) {
        labels.push_back(c);
        ++at_;
      } else {
        fail(at_, cat("unexpected '", c, "'"));
      }
    }
    return labels;
  }

  void parse_operand() {
    const std::size_t begin = at_;
    const Labels parsed = parse_labels();
    if (terms.size() >= operands_.size())
      fail(begin, cat("more operands in the equation than the ", operands_.size(), " given"));
    const Tensor& tensor = operands_[terms.size()];
    if (!tensor.defined()) fail(begin, cat("operand ", terms.size(), " is an undefined Tensor"));
    const bool open = contains(parsed, kEllipsis);
    const auto named = static_cast<int>(parsed.size()) - (open ? 1 : 0);
    if (open ? tensor.rank() < named : tensor.rank() != named)
      fail(begin, cat("operand ", terms.size(), " has shape ", tensor.shape(), ", but the equation names ", named,
                      open ? " axes besides \"...\"" : " axes"));
    Term term{tensor, {}};
    for (const Label label : parsed)
      if (label == kEllipsis)
        append_ellipsis(term.labels, tensor.rank() - named);
      else
        term.labels.push_back(label);
    for (int axis = 0; axis < tensor.rank(); ++axis) note_size(term, axis, begin);
    terms.push_back(std::move(term));
  }

  void append_ellipsis(Labels& labels, int count) {
    ellipsis_ = std::max(ellipsis_, count);
    for (int i = count; i > 0; --i) labels.push_back(kEllipsis + i);
  }

  // Axes under one letter have one size; those under "..." broadcast.
  void note_size(const Term& term, int axis, std::size_t begin) {
    const Label label = term.labels[static_cast<std::size_t>(axis)];
    const std::int64_t size = term.tensor.shape()[axis];
    const auto [found, first] = sizes.emplace(label, size);
    if (first || found->second == size) return;
    if (label > kEllipsis && size == 1) return;
    if (label > kEllipsis && found->second == 1) {
      found->second = size;
      return;
    }
    const std::string what = label > kEllipsis ? "an axis of \"...\"" : cat("'", static_cast<char>(label), "'");
    fail(begin, cat(what, " has size ", size, " in operand ", terms.size(), " ", term.tensor.shape(), ", but ",
                    found->second, " before"));
  }

  void parse_output() {
    if (text_.compare(at_, 2, "->") != 0) fail(at_, "expected \"->\" or ','");
    at_ += 2;
    const std::size_t begin = at_;
    const Labels parsed = parse_labels();
    if (at_ < text_.size()) fail(at_, cat("unexpected '", text_[at_], "' in the output"));
    for (const Label label : parsed) {
      if (label == kEllipsis) {
        append_ellipsis(output, ellipsis_);
        continue;
      }
      if (!sizes.count(label)) fail(begin, cat("output label '", static_cast<char>(label), "' is in no operand"));
      if (contains(output, label)) fail(begin, cat("output label '", static_cast<char>(label), "' appears twice"));
      output.push_back(label);
    }
  }

  // The axes of "...", then every letter that appears once, in alphabetical order.
  void implicit_output() {
    append_ellipsis(output, ellipsis_);
    for (const auto& [label, size] : sizes) {
      std::int64_t count = 0;
      for (const Term& term : terms) count += std::count(term.labels.begin(), term.labels.end(), label);
      if (label < kEllipsis && count == 1) output.push_back(label);
    }
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void fail(std::size_t at, const std::string& what) const {
    throw Error(cat("einsum: \"", text_, "\", position ", at, ": ", what, "."));
  }

  const std::string& text_;
  const std::vector<Tensor>& operands_;
  std::size_t at_ = 0;
  int ellipsis_ = 0;  // the most axes that "..." stands for
};

Term permuted(const Term& term, const Labels& order) {
  if (order == term.labels) return term;
  Axes axes;
  for (const Label label : order) axes.push_back(position(term.labels, label));
  return {transpose(term.tensor, axes), order};
}

// "ii" keeps the elements whose two indices agree: every (n+1)-th of the flattened pair of axes.
Term diagonal(Term term) {
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    const auto later =
        std::find(term.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, term.labels.end(), term.labels[i]);
    if (later == term.labels.end()) continue;
    const auto first = static_cast<std::int64_t>(i), second = later - term.labels.begin();
    Axes axes;
    Labels labels;
    Shape flat;
    std::vector<Range> ranges;
    for (std::int64_t axis = 0; axis < term.tensor.rank(); ++axis) {
      if (axis == first || axis == second) continue;
      axes.push_back(axis);
      labels.push_back(term.labels[static_cast<std::size_t>(axis)]);
      flat.push_back(term.tensor.shape()[static_cast<int>(axis)]);
      ranges.push_back({});
    }
    const std::int64_t n = term.tensor.shape()[static_cast<int>(first)];
    axes.insert(axes.end(), {first, second});
    labels.push_back(term.labels[i]);
    flat.push_back(Shape{n, n}.numel());
    ranges.push_back({.step = n + 1});
    term = {slice(transpose(term.tensor, axes).reshape(flat), ranges), labels};
    i = static_cast<std::size_t>(-1);  // the axes have moved: look again from the first
  }
  return term;
}

// Without the axes of size 1 that broadcast against larger ones: the others bring them along.
Term without_broadcast(const Term& term, const std::map<Label, std::int64_t>& sizes) {
  Axes dropped;
  Labels kept;
  for (std::size_t i = 0; i < term.labels.size(); ++i)
    if (term.tensor.shape()[static_cast<int>(i)] == 1 && sizes.at(term.labels[i]) != 1)
      dropped.push_back(static_cast<std::int64_t>(i));
    else
      kept.push_back(term.labels[i]);
  return dropped.empty() ? term : Term{squeeze(term.tensor, dropped), kept};
}

// Summed over the axes that nobody else needs.
Term reduced(const Term& term, const std::set<Label>& needed) {
  Axes summed;
  Labels kept;
  for (std::size_t i = 0; i < term.labels.size(); ++i)
    if (needed.count(term.labels[i]))
      kept.push_back(term.labels[i]);
    else
      summed.push_back(static_cast<std::int64_t>(i));
  return summed.empty() ? term : Term{sum(term.tensor, {.axes = summed}).to(term.tensor.dtype()), kept};
}

// How two terms meet: batch labels stay in the result, `inner` ones are summed, the rest is one side's own.
struct Meeting {
  Labels batch, inner, left, right;

  Meeting(const Term& a, const Term& b, const std::set<Label>& needed) {
    for (const Label label : a.labels)
      if (!contains(b.labels, label))
        left.push_back(label);
      else if (needed.count(label))
        batch.push_back(label);
      else
        inner.push_back(label);
    for (const Label label : b.labels)
      if (!contains(a.labels, label)) right.push_back(label);
  }
};

Labels joined(Labels a, const Labels& b, const Labels& c = {}) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

Shape shape_of(const Labels& labels, const std::map<Label, std::int64_t>& sizes) {
  Shape shape;
  for (const Label label : labels) shape.push_back(sizes.at(label));
  return shape;
}

double volume(const Labels& labels, const std::map<Label, std::int64_t>& sizes) {
  double product = 1;
  for (const Label label : labels) product *= static_cast<double>(sizes.at(label));
  return product;
}

Term contract(const Term& a, const Term& b, const std::set<Label>& needed, const std::map<Label, std::int64_t>& sizes) {
  const Meeting m(a, b, needed);
  const Labels result = joined(m.batch, m.left, m.right);
  const Shape out = shape_of(result, sizes);
  Shape batch = shape_of(m.batch, sizes);
  const auto flat = [&](std::int64_t rows, std::int64_t columns) {
    Shape shape = batch;
    shape.push_back(rows);
    shape.push_back(columns);
    return shape;
  };
  const std::int64_t rows = shape_of(m.left, sizes).numel(), columns = shape_of(m.right, sizes).numel();
  if (m.inner.empty())  // nothing to sum: a broadcast product fuses with what follows
    return {(permuted(a, joined(m.batch, m.left)).tensor.reshape(flat(rows, 1)) *
             permuted(b, joined(m.batch, m.right)).tensor.reshape(flat(1, columns)))
                .reshape(out),
            result};
  // Where an operand lies transposed already, the product reads it so.
  const MatmulOptions options{.transpose_a = a.labels == joined(m.batch, m.inner, m.left),
                              .transpose_b = b.labels == joined(m.batch, m.right, m.inner)};
  const std::int64_t k = shape_of(m.inner, sizes).numel();
  const Tensor x = options.transpose_a ? a.tensor.reshape(flat(k, rows))
                                       : permuted(a, joined(m.batch, m.left, m.inner)).tensor.reshape(flat(rows, k));
  const Tensor y = options.transpose_b
                       ? b.tensor.reshape(flat(columns, k))
                       : permuted(b, joined(m.batch, m.inner, m.right)).tensor.reshape(flat(k, columns));
  return {matmul(x, y, options).reshape(out), result};
}

// Labels that must outlive the meeting of terms i and j.
std::set<Label> needed_outside(const std::vector<Term>& terms, std::size_t i, std::size_t j, const Labels& output) {
  std::set<Label> needed(output.begin(), output.end());
  for (std::size_t t = 0; t < terms.size(); ++t)
    if (t != i && t != j) needed.insert(terms[t].labels.begin(), terms[t].labels.end());
  return needed;
}

// The pair whose product costs the least, the leftmost of equals.
std::pair<std::size_t, std::size_t> cheapest_pair(const std::vector<Term>& terms,
                                                  const std::map<Label, std::int64_t>& sizes) {
  std::pair<std::size_t, std::size_t> best{0, 1};
  double least = -1;
  for (std::size_t i = 0; i < terms.size(); ++i)
    for (std::size_t j = i + 1; j < terms.size(); ++j) {
      std::set<Label> both(terms[i].labels.begin(), terms[i].labels.end());
      both.insert(terms[j].labels.begin(), terms[j].labels.end());
      const double cost = volume(Labels(both.begin(), both.end()), sizes);
      if (least >= 0 && cost >= least) continue;
      least = cost;
      best = {i, j};
    }
  return best;
}

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  if (operands.empty()) throw Error(cat("einsum: \"", equation, "\" was given no operands."));
  Parser parser(equation, operands);
  parser.run();
  std::vector<Term> terms = std::move(parser.terms);
  DType dtype = operands[0].dtype();
  for (const Tensor& operand : operands) dtype = promote(dtype, operand.dtype());
  if (dtype == boolean)
    throw Error(cat("einsum: \"", equation, "\" takes numbers, got bool. Convert with cast first."));

  const std::size_t alone = terms.size();
  for (Term& term : terms) term = without_broadcast(diagonal({term.tensor.to(dtype), term.labels}), parser.sizes);
  for (std::size_t i = 0; i < terms.size(); ++i)
    terms[i] = reduced(terms[i], needed_outside(terms, i, alone, parser.output));
  while (terms.size() > 1) {
    const auto [i, j] = cheapest_pair(terms, parser.sizes);
    Term product = contract(terms[i], terms[j], needed_outside(terms, i, j, parser.output), parser.sizes);
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(j));
    terms[i] = std::move(product);
  }
  return permuted(terms[0], parser.output).tensor;
}

}  // namespace varve
