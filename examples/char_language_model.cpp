// The next character: an LSTM reads two sonnets until it can go on by itself.
//
//   char_language_model              the text below
//   char_language_model book.txt     a text of yours
#include <varve/varve.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <string>

namespace vv = varve;
namespace nn = vv::nn;

// William Shakespeare, sonnets 18 and 30.
const std::string kText = R"(Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date;
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance or nature's changing course untrimm'd;
But thy eternal summer shall not fade,
Nor lose possession of that fair thou ow'st;
Nor shall death brag thou wander'st in his shade,
When in eternal lines to time thou grow'st:
So long as men can breathe or eyes can see,
So long lives this, and this gives life to thee.

When to the sessions of sweet silent thought
I summon up remembrance of things past,
I sigh the lack of many a thing I sought,
And with old woes new wail my dear time's waste:
Then can I drown an eye, unused to flow,
For precious friends hid in death's dateless night,
And weep afresh love's long since cancell'd woe,
And moan the expense of many a vanish'd sight:
Then can I grieve at grievances foregone,
And heavily from woe to woe tell o'er
The sad account of fore-bemoaned moan,
Which I new pay as if not paid before.
But if the while I think on thee, dear friend,
All losses are restored and sorrows end.
)";

constexpr std::int64_t kSteps = 24;

// Goes on from the end of `text`, a character at a time: always the most likely one.
std::string continued(nn::Module& model, const vv::data::Vocabulary& characters, std::string text, int count) {
  for (int i = 0; i < count; ++i) {
    std::vector<std::int32_t> ids;
    for (std::size_t at = text.size() - kSteps; at < text.size(); ++at)
      ids.push_back(characters.id(text.substr(at, 1)));
    const vv::Tensor scores = vv::train::predict(model, vv::tensor(ids, {1, kSteps}));  // [1, kSteps, characters]
    text += characters.word(static_cast<std::int32_t>(vv::argmax(scores).to_vector<std::int64_t>().back()));
  }
  return text;
}

int main(int argc, char** argv) {
  std::string path = (std::filesystem::temp_directory_path() / "varve-example-sonnets.txt").string();
  if (argc > 1)
    path = argv[1];
  else
    vv::save_text(path, kText);
  const vv::data::Splits text = vv::data::characters(path, {.steps = kSteps, .streams = 4});
  const vv::data::Vocabulary& characters = *text.train.info().vocabulary;

  auto model = nn::sequential(nn::embedding(characters.size(), 32), nn::lstm(96), nn::dense(characters.size()));
  const vv::train::History history = vv::train::fit(model, text.train,
                                                    {.optimizer = vv::optim::adam(1e-2).clip_norm(1),
                                                     .epochs = argc > 1 ? 20 : 60,
                                                     .batch = 4,
                                                     .verbosity = vv::train::Verbosity::quiet});

  const double first = history.epochs.front().value("perplexity"), last = history.epochs.back().value("perplexity");
  std::cout << history.epochs.size() << " epochs, " << history.seconds << " s: perplexity " << first << " to " << last
            << " of " << characters.size() << " characters\n\n"
            << continued(model, characters, vv::load_text(path).substr(0, 80), 200) << '\n';
  return last < 0.25 * first ? 0 : 1;
}
