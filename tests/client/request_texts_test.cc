#include "client/request_texts.h"

#include <gtest/gtest.h>

#include <string>

#include "gpupool/v1/dataset.pb.h"

namespace gpupool::client {
namespace {

std::string Refusal(const google::protobuf::Message& message) {
  const absl::Status status = CheckTexts(message);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(RequestTextsTest, Utf8PassesInAllFields) {
  v1::UploadDatasetRequest request;
  v1::UploadDatasetRequest::Header& header = *request.mutable_header();
  header.set_name(
      "gr\xC3\xB6\xC3\x9F"
      "e");
  header.add_files()->set_file_name("a.csv");
  (*header.mutable_layout()->mutable_input_arrays())["ids"] = "x";
  EXPECT_TRUE(CheckTexts(request).ok());
}

TEST(RequestTextsTest, RefusalsNameTheFieldAndEscapeItsBytes) {
  v1::UploadDatasetRequest request;
  request.mutable_header()->set_name("\xFF");
  EXPECT_EQ(Refusal(request),
            "name is '\\xff', which is not UTF-8; write it in UTF-8");
  request.mutable_header()->set_name("good");
  request.mutable_header()->add_files()->set_file_name("a.csv");
  request.mutable_header()->add_files()->set_file_name("\xFF.txt");
  EXPECT_EQ(Refusal(request),
            "files.file_name is '\\xff.txt', which is not UTF-8; write it in "
            "UTF-8");
  v1::GetDatasetRequest get;
  get.set_name(std::string(100, '\xC3'));
  std::string cut;
  for (int i = 0; i < 40; ++i) cut += "\\xc3";
  EXPECT_EQ(Refusal(get),
            "name is '" + cut + "...', which is not UTF-8; write it in UTF-8");
}

TEST(RequestTextsTest, ListsAndMapsAreChecked) {
  v1::DatasetLayout layout;
  layout.add_categories()->add_values("good");
  layout.mutable_categories(0)->add_values("\xE9t\xE9");
  EXPECT_NE(Refusal(layout).find("categories.values is"), std::string::npos);
  layout.clear_categories();
  (*layout.mutable_input_arrays())["\xFF"] = "x";
  EXPECT_NE(Refusal(layout).find("input_arrays.key is"), std::string::npos);
}

TEST(RequestTextsTest, BytesMayBeAnything) {
  v1::UploadDatasetRequest request;
  request.mutable_chunk()->set_data("\xFF");
  EXPECT_TRUE(CheckTexts(request).ok());
}

}  // namespace
}  // namespace gpupool::client
