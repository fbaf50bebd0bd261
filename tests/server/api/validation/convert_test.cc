#include "server/api/validation/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kLimit = 1000;

void Refused(const absl::Status& status,
             const std::vector<std::string>& fragments) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  for (const std::string& fragment : fragments) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(fragment));
  }
}

v1::UploadDatasetRequest::Header CsvHeader() {
  v1::UploadDatasetRequest::Header header;
  header.set_name("digits");
  v1::DatasetFile* file = header.add_files();
  file->set_file_name("digits.csv.gz");
  file->set_total_bytes(10);
  file->set_sha256(std::string(64, 'a'));
  return header;
}

v1::UploadDatasetRequest::Header PairHeader(const std::string& first,
                                            const std::string& second) {
  v1::UploadDatasetRequest::Header header = CsvHeader();
  header.mutable_files(0)->set_file_name(first);
  *header.add_files() = header.files(0);
  header.mutable_files(1)->set_file_name(second);
  return header;
}

TEST(CheckNameTest, TakesLettersDigitsAndThreeSigns) {
  for (const char* name : {"a", "Digits-2.v_1", "_x", "-x", "7"}) {
    EXPECT_TRUE(CheckName("name", name).ok()) << name;
  }
  EXPECT_TRUE(CheckName("name", std::string(128, 'a')).ok());
}

TEST(CheckNameTest, RefusesWhatCouldBeAPathOrControlACode) {
  for (const std::string& name :
       {std::string("../x"), std::string(".hidden"), std::string("a/b"),
        std::string("a b"), std::string("a\nb"), std::string("a\0b", 3),
        std::string("\xc3\xa4"), std::string(129, 'a')}) {
    Refused(CheckName("data.dataset", name), {"data.dataset", "128"});
  }
  Refused(CheckName("name", ""), {"name is not set"});
}

TEST(CheckNameTest, EscapesAndCutsTheValueInItsMessage) {
  const std::string message(
      CheckName("name", "a\x1b[31m" + std::string(500, 'x')).message());
  EXPECT_THAT(message, HasSubstr("\\x1b"));
  EXPECT_LT(message.size(), 250u);
}

TEST(CheckRequestIdTest, IsPrintableAndNotTooLong) {
  EXPECT_TRUE(CheckRequestId("0b9f/7 x").ok());
  Refused(CheckRequestId(""), {"request_id", "random"});
  Refused(CheckRequestId(std::string(129, 'x')), {"129", "128"});
  Refused(CheckRequestId("a\tb"), {"printable"});
}

TEST(CheckIdTest, BeginsAtOneAndFitsTheStore) {
  EXPECT_TRUE(CheckId("id", 1).ok());
  Refused(CheckId("id", 0), {"id is 0"});
  Refused(CheckId("id", UINT64_MAX), {"id is"});
}

TEST(CheckDeviceTest, KnowsTwoKinds) {
  for (const char* name : {"cpu:0", "cuda:15", "cuda:1023"}) {
    EXPECT_TRUE(CheckDevice(name).ok()) << name;
  }
  for (const char* name : {"", "cpu", "cpu:", "cpu:-1", "cpu: 1", "gpu:0",
                           "cpu:99999", "cpu:0/..", "meta:0", "meta", "nope"}) {
    Refused(CheckDevice(name), {"cpu:0"});
  }
  Refused(CheckDevice("cuda:1024"), {"cuda:1024", "from 0 to 1023"});
}

TEST(CheckUploadHeaderTest, FillsFormatAndRolesFromTheFileNames) {
  auto csv = CsvHeader();
  ASSERT_TRUE(CheckUploadHeader(&csv, kLimit).ok());
  EXPECT_EQ(csv.layout().format(), v1::CSV);
  EXPECT_EQ(csv.files(0).role(), v1::DatasetFile::TABLE);
  auto idx = PairHeader("t10k-images-idx3-ubyte.gz", "labels.idx");
  ASSERT_TRUE(CheckUploadHeader(&idx, kLimit).ok());
  EXPECT_EQ(idx.layout().format(), v1::IDX);
  EXPECT_EQ(idx.files(0).role(), v1::DatasetFile::FEATURES);
  EXPECT_EQ(idx.files(1).role(), v1::DatasetFile::LABELS);
}

TEST(CheckUploadHeaderTest, JsonLinesHaveRowsInLinesWithNames) {
  for (const char* name : {"a.jsonl", "A.NDJSON", "a.jsonl.gz"}) {
    auto header = CsvHeader();
    header.mutable_layout()->Clear();
    header.mutable_layout()->add_label_names("price");
    header.mutable_files(0)->set_file_name(name);
    ASSERT_TRUE(CheckUploadHeader(&header, kLimit).ok()) << name;
    EXPECT_EQ(header.layout().format(), v1::CSV);
    EXPECT_EQ(header.files(0).role(), v1::DatasetFile::TABLE);
  }
}

TEST(CheckUploadHeaderTest, RefusesParquetWithARemedy) {
  auto header = CsvHeader();
  header.mutable_files(0)->set_file_name("digits.parquet");
  Refused(CheckUploadHeader(&header, kLimit),
          {"digits.parquet", "Parquet", "docs/parquet.md"});
  // The format that the client names counts, not the name.
  header.mutable_layout()->set_format(v1::CSV);
  EXPECT_TRUE(CheckUploadHeader(&header, kLimit).ok());
}

TEST(CheckUploadHeaderTest, KeepsTheOrderThatTheClientNames) {
  auto npy = PairHeader("y.npy", "x.npy");
  npy.mutable_files(0)->set_role(v1::DatasetFile::LABELS);
  npy.mutable_files(1)->set_role(v1::DatasetFile::FEATURES);
  EXPECT_TRUE(CheckUploadHeader(&npy, kLimit).ok());
  npy.mutable_files(1)->set_role(v1::DatasetFile::LABELS);
  Refused(CheckUploadHeader(&npy, kLimit), {"FEATURES", "LABELS"});
}

TEST(CheckUploadHeaderTest, RefusesWhatDoesNotFitTogether) {
  auto header = CsvHeader();
  header.mutable_files(0)->set_file_name("digits.xlsx");
  Refused(CheckUploadHeader(&header, kLimit),
          {"digits.xlsx", ".csv", ".jsonl"});
  header = PairHeader("a.csv", "b.csv");
  Refused(CheckUploadHeader(&header, kLimit), {"CSV", "1 file", "got 2"});
  header = CsvHeader();
  header.mutable_layout()->set_format(v1::IDX);
  Refused(CheckUploadHeader(&header, kLimit), {"IDX", "2 files"});
  header = CsvHeader();
  header.mutable_layout()->set_format(static_cast<v1::DatasetFormat>(99));
  Refused(CheckUploadHeader(&header, kLimit), {"99"});
  header = CsvHeader();
  header.clear_files();
  Refused(CheckUploadHeader(&header, kLimit), {"0 entries"});
  header = CsvHeader();
  header.mutable_files(0)->set_sha256("abc");
  Refused(CheckUploadHeader(&header, kLimit), {"sha256", "64"});
  header = CsvHeader();
  header.mutable_files(0)->set_total_bytes(0);
  Refused(CheckUploadHeader(&header, kLimit), {"empty"});
}

TEST(CheckUploadHeaderTest, ImagesAreOneToSixtyFourArchives) {
  auto header = CsvHeader();
  header.mutable_layout()->Clear();
  header.mutable_files(0)->set_file_name("a.tar");
  header.mutable_files(0)->set_total_bytes(1);
  const v1::DatasetFile archive = header.files(0);
  while (header.files_size() < 64) *header.add_files() = archive;
  ASSERT_TRUE(CheckUploadHeader(&header, kLimit).ok());
  EXPECT_EQ(header.layout().format(), v1::IMAGES);
  EXPECT_EQ(header.files(63).role(), v1::DatasetFile::IMAGES);
  *header.add_files() = archive;
  Refused(CheckUploadHeader(&header, kLimit), {"65 entries", "64"});
  header = CsvHeader();
  header.mutable_layout()->Clear();
  header.mutable_files(0)->set_file_name("a.tar.gz");
  Refused(CheckUploadHeader(&header, kLimit),
          {"compressed archive", "a.tar.gz"});
}

TEST(CheckUploadHeaderTest, TextIsOneToSixtyFourFiles) {
  auto header = CsvHeader();
  header.mutable_layout()->Clear();
  header.mutable_files(0)->set_file_name("a.txt");
  header.mutable_files(0)->set_total_bytes(1);
  const v1::DatasetFile file = header.files(0);
  while (header.files_size() < 64) *header.add_files() = file;
  ASSERT_TRUE(CheckUploadHeader(&header, kLimit).ok());
  EXPECT_EQ(header.layout().format(), v1::TEXT);
  EXPECT_EQ(header.files(63).role(), v1::DatasetFile::TABLE);
}

TEST(CheckUploadHeaderTest, LabelColumnsAreNamedInOneWayAndForCsvOnly) {
  auto header = CsvHeader();
  header.mutable_layout()->add_label_columns(0);
  header.mutable_layout()->add_label_columns(2);
  EXPECT_TRUE(CheckUploadHeader(&header, kLimit).ok());
  header.mutable_layout()->set_label_column(1);
  Refused(CheckUploadHeader(&header, kLimit), {"more than one of"});
  header = CsvHeader();
  header.mutable_layout()->add_label_names("price");
  Refused(CheckUploadHeader(&header, kLimit), {"label_names", "--header"});
  header.mutable_layout()->set_has_header(true);
  EXPECT_TRUE(CheckUploadHeader(&header, kLimit).ok());
  header.mutable_layout()->add_label_names(std::string(300, 'a'));
  Refused(CheckUploadHeader(&header, kLimit), {"300 bytes", "255"});
  header = CsvHeader();
  for (int i = 0; i <= 65536; ++i)
    header.mutable_layout()->add_label_columns(i);
  Refused(CheckUploadHeader(&header, kLimit), {"65537", "65536", "NPZ"});
  header = PairHeader("x.npy", "y.npy");
  header.mutable_layout()->add_label_columns(0);
  Refused(CheckUploadHeader(&header, kLimit), {"for CSV", "NPY"});
}

TEST(CheckUploadHeaderTest, NamedArraysAreForArchives) {
  auto header = CsvHeader();
  (*header.mutable_layout()->mutable_input_arrays())["ids"] = "x";
  Refused(CheckUploadHeader(&header, kLimit),
          {"layout.input_arrays is for NPZ", "CSV"});
  header.mutable_files(0)->set_file_name("a.npz");
  header.mutable_layout()->clear_format();
  EXPECT_TRUE(CheckUploadHeader(&header, kLimit).ok());
  header.mutable_layout()->set_features_array("x");
  Refused(CheckUploadHeader(&header, kLimit),
          {"both features_array and input_arrays"});
  header.mutable_layout()->clear_features_array();
  auto& targets = *header.mutable_layout()->mutable_target_arrays();
  targets["y"] = "";
  Refused(CheckUploadHeader(&header, kLimit),
          {"layout.target_arrays", "0 bytes", "1 to 255"});
  targets["y"] = std::string(256, 'a');
  Refused(CheckUploadHeader(&header, kLimit), {"256 bytes"});
  for (int i = 0; i < 65; ++i) targets["y" + std::to_string(i)] = "y";
  targets["y"] = "y";
  Refused(CheckUploadHeader(&header, kLimit), {"66 arrays, the limit is 64"});
}

TEST(CheckUploadHeaderTest, LimitHoldsForTheSumEvenWhenItOverflows) {
  auto header = CsvHeader();
  header.mutable_files(0)->set_total_bytes(kLimit);
  EXPECT_TRUE(CheckUploadHeader(&header, kLimit).ok());
  header = PairHeader("a.npy", "b.npy");
  header.mutable_files(0)->set_total_bytes(2);
  header.mutable_files(1)->set_total_bytes(UINT64_MAX - 1);
  const absl::Status status = CheckUploadHeader(&header, kLimit);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1000"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--dataset-limit"));
}

TEST(CheckServingOptionsTest, FillsDefaultsAndNamesTheLimit) {
  v1::ServingOptions options;
  ASSERT_TRUE(CheckServingOptions("serving", &options).ok());
  EXPECT_EQ(options.max_batch_size(), 32u);
  EXPECT_EQ(options.max_queue_size(), 1024u);
  EXPECT_EQ(options.max_queue_delay_microseconds(), 0u);
  options.set_max_batch_size(1025);
  Refused(CheckServingOptions("serving", &options),
          {"serving.max_batch_size", "1025", "1024"});
  options.set_max_batch_size(0);
  options.set_max_programs(257);
  Refused(CheckServingOptions("serving", &options),
          {"serving.max_programs", "257", "256"});
}

TEST(CheckPromoteTest, NeedsAJobAndLeavesAbsentOptionsAbsent) {
  v1::PromoteCheckpointRequest request;
  Refused(CheckPromote(&request), {"job_id"});
  request.set_job_id(3);
  ASSERT_TRUE(CheckPromote(&request).ok());
  EXPECT_FALSE(request.has_serving());
  request.set_model("a/b");
  Refused(CheckPromote(&request), {"model"});
}

TEST(WatchIntervalTest, HasADefaultAndTwoEnds) {
  v1::WatchDevicesRequest request;
  EXPECT_EQ(*WatchInterval(request), absl::Seconds(1));
  request.set_interval_seconds(0.1);
  EXPECT_EQ(*WatchInterval(request), absl::Milliseconds(100));
  for (const double bad : {0.01, -1.0, 4000.0, std::nan("")}) {
    request.set_interval_seconds(bad);
    Refused(WatchInterval(request).status(), {"interval_seconds"});
  }
}

TEST(QuotedTest, TextsAreAreCutBetweenLetters) {
  EXPECT_EQ(Quoted("c\xc3\xbc"
                   "da\n"),
            "\"c\xc3\xbc"
            "da\\n\"");
  std::string umlauts = "x";
  while (umlauts.size() < 101) umlauts += "\xc3\xbc";
  EXPECT_EQ(Quoted(umlauts),
            absl::StrCat("\"", umlauts.substr(0, 63), "...\""));
}

}  // namespace
}  // namespace gpupool::server
