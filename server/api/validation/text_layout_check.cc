#include "server/api/validation/text_layout_check.h"

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/text_limits.h"
#include "server/api/validation/convert.h"

namespace gpupool::server {
namespace {

using engine::Refuse;

// Checks the length of the rows that texts of CSV files become.
absl::Status CheckTextLength(const v1::DatasetLayout& layout) {
  const bool bytes = layout.text() == v1::DatasetLayout::BYTES;
  const uint32_t length = layout.text_length();
  if (!bytes && length == 0) return absl::OkStatus();
  if (!bytes) {
    return Refuse("layout.text_length is ", length,
                  ", but it is for text: BYTES only (gpupool: --text bytes)");
  }
  if (length >= 1 && length <= engine::kMaxTextLength) return absl::OkStatus();
  return Refuse("layout.text_length is ", length, "; text: BYTES needs 1 to ",
                engine::kMaxTextLength,
                " numbers for each text (gpupool: --text-length)");
}

absl::Status CheckTokenizer(const v1::DatasetFile& file,
                            const v1::DatasetLayout& layout) {
  if (file.total_bytes() > engine::kMaxTokenizerFileBytes) {
    return Refuse("the tokenizer ", Quoted(file.file_name()), " has ",
                  file.total_bytes(), " bytes, the limit is ",
                  engine::kMaxTokenizerFileBytes,
                  "; give the .model file of SentencePiece");
  }
  if (layout.categories().empty()) return absl::OkStatus();
  return Refuse("the dataset has the tokenizer ", Quoted(file.file_name()),
                " and tokens in layout.categories; leave one out (gpupool: "
                "--tokenizer and --tokens)");
}

// Returns the name of the role, which may be one of a newer client.
std::string RoleText(const v1::DatasetFile& file) {
  const std::string& name = v1::DatasetFile::Role_Name(file.role());
  return name.empty() ? absl::StrCat(static_cast<int>(file.role())) : name;
}

}  // namespace

absl::Status CheckTextLayout(const v1::DatasetLayout& layout) {
  RETURN_IF_ERROR(CheckTextLength(layout));
  if (layout.format() != v1::TEXT || layout.categories().empty()) {
    return absl::OkStatus();
  }
  if (layout.categories_size() > 1 ||
      layout.categories(0).column() != "labels") {
    return Refuse(
        "layout.categories of text has one entry, the tokens of the column "
        "\"labels\"");
  }
  return absl::OkStatus();
}

absl::Status CheckTokenizerFormat(
    const v1::UploadDatasetRequest::Header& header) {
  if (header.layout().format() == v1::TEXT) return absl::OkStatus();
  for (const v1::DatasetFile& file : header.files()) {
    if (file.role() != v1::DatasetFile::TOKENIZER) continue;
    return Refuse("the tokenizer ", Quoted(file.file_name()),
                  " is for files of text, but the format is ",
                  v1::DatasetFormat_Name(header.layout().format()),
                  "; leave it out, or give .txt files");
  }
  return absl::OkStatus();
}

absl::Status FillTextRoles(v1::UploadDatasetRequest::Header* header) {
  int texts = 0;
  int tokenizers = 0;
  for (v1::DatasetFile& file : *header->mutable_files()) {
    switch (file.role()) {
      case v1::DatasetFile::ROLE_UNSPECIFIED:
        file.set_role(v1::DatasetFile::TABLE);
        ++texts;
        break;
      case v1::DatasetFile::TABLE:
        ++texts;
        break;
      case v1::DatasetFile::TOKENIZER:
        ++tokenizers;
        RETURN_IF_ERROR(CheckTokenizer(file, header->layout()));
        break;
      default:
        return Refuse("file ", Quoted(file.file_name()), " has the role ",
                      RoleText(file),
                      ", but files of text have TABLE, and a SentencePiece "
                      "model TOKENIZER");
    }
  }
  if (tokenizers > 1) {
    return Refuse("files has ", tokenizers,
                  " files with the role TOKENIZER; a dataset takes one");
  }
  if (texts == 0) {
    return Refuse("files has a tokenizer and no text; add files of text");
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
