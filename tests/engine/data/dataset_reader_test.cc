#include "engine/data/dataset_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/base/sha256.h"
#include "tests/engine/data/files.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

using files::Big;
using files::Gzip;
using files::Npy;
using testing::ElementsAre;
using testing::HasSubstr;

class DatasetReaderTest : public testing::Test {
 protected:
  v1::DatasetFile Store(const std::string& name, const std::string& bytes,
                        v1::DatasetFile::Role role = v1::DatasetFile::TABLE) {
    v1::DatasetFile file;
    file.set_role(role);
    file.set_file_name(name);
    file.set_total_bytes(bytes.size());
    file.set_sha256(Sha256Hex(bytes));
    files::WriteFile(dir_ + "/" + file.sha256(), bytes);
    return file;
  }
  absl::StatusOr<Table> Read(const std::vector<v1::DatasetFile>& files,
                             const v1::DatasetLayout& layout = {}) {
    return ReadDataset(layout, files, dir_, {});
  }

  const ScratchFolder folder_;
  const std::string dir_ = folder_.path();
};

TEST_F(DatasetReaderTest, TellsTheFormatByTheFileName) {
  EXPECT_EQ(FormatOfFileName("a.csv"), v1::CSV);
  EXPECT_EQ(FormatOfFileName("A.CSV.GZ"), v1::CSV);
  EXPECT_EQ(FormatOfFileName("train-images-idx3-ubyte.gz"), v1::IDX);
  EXPECT_EQ(FormatOfFileName("x.npy"), v1::NPY);
  EXPECT_EQ(FormatOfFileName("x.npz"), v1::NPZ);
  EXPECT_EQ(FormatOfFileName("x.parquet"), v1::DATASET_FORMAT_UNSPECIFIED);
  EXPECT_THAT(Read({Store("x.parquet", "1,2\n")}).status().message(),
              HasSubstr("set layout.format"));
}

TEST_F(DatasetReaderTest, ReadsCsvPlainAndPacked) {
  for (const auto& file :
       {Store("t.csv", "1,0\n2,1\n"), Store("t.csv.gz", Gzip("1,0\n2,1\n"))}) {
    auto table = Read({file});
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->rows, 2u);
  }
}

TEST_F(DatasetReaderTest, ReadsPairsOfIdxFiles) {
  auto table = Read({Store("f-ubyte.gz",
                           Gzip(Big(0x0803, 4) + Big(2, 4) + Big(1, 4) +
                                Big(2, 4) + "\1\2\3\4"),
                           v1::DatasetFile::FEATURES),
                     Store("l-ubyte", Big(0x0801, 4) + Big(2, 4) + "\1\2",
                           v1::DatasetFile::LABELS)});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->feature_shape, ElementsAre(1, 2));
  EXPECT_THAT(table->labels, ElementsAre(1, 2));
}

TEST_F(DatasetReaderTest, ReadsPairsOfNpyFiles) {
  auto table = Read(
      {Store("x.npy", Npy("|i1", "(2,1)", "\1\2"), v1::DatasetFile::FEATURES),
       Store("y.npy", Npy("|i1", "(2,)", "\1\1"), v1::DatasetFile::LABELS)});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->label_facts.class_count(), 2u);
}

TEST_F(DatasetReaderTest, ErrorsNameTheFileAsTheUserCalledIt) {
  EXPECT_EQ(Read({Store("digits.csv", "1,2\n3,x\n")}).status().message(),
            "digits.csv: line 2 column 2: \"x\" is not a finite number");
}

TEST_F(DatasetReaderTest, FilesMustFitTheFormat) {
  const v1::DatasetFile table = Store("t.csv", "1,0\n");
  EXPECT_THAT(Read({table, table}).status().message(),
              HasSubstr("CSV datasets have one file; this one has 2"));
  EXPECT_THAT(Read({Store("x.npy", Npy("|i1", "(2,1)", "\1\2"),
                          v1::DatasetFile::FEATURES)})
                  .status()
                  .message(),
              HasSubstr("no file with role LABELS"));
  EXPECT_FALSE(Read({}).ok());
}

TEST_F(DatasetReaderTest, SpoiledOrMissingBlobsAreToldApart) {
  v1::DatasetFile file = Store("t.csv", "5,6\n");
  files::WriteFile(dir_ + "/" + file.sha256(), "5,7\n");
  EXPECT_EQ(Read({file}).status().code(), absl::StatusCode::kDataLoss);
  file.set_sha256(std::string(64, '0'));
  EXPECT_EQ(Read({file}).status().code(), absl::StatusCode::kNotFound);
  file.set_sha256("../../etc/passwd");
  EXPECT_EQ(Read({file}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::engine
