// Checks the options of a dataset's layout that are for text, and fills in the
// roles of text files.
//
// Thread-safety: pure functions.
#pragma once

#include "absl/status/status.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::server {

// Returns INVALID_ARGUMENT with the field, its value and the limit. The format
// must be filled in, and the categories must have passed CheckCsvLayout.
absl::Status CheckTextLayout(const v1::DatasetLayout& layout);

// Checks that no file has the role TOKENIZER unless the format, which must be
// filled in, is TEXT.
absl::Status CheckTokenizerFormat(
    const v1::UploadDatasetRequest::Header& header);

// Gives files without a role the role TABLE, and checks the others: TABLE, and
// at most one TOKENIZER, which has a limit and takes the place of
// layout.categories. INVALID_ARGUMENT names the file, its role and the remedy.
absl::Status FillTextRoles(v1::UploadDatasetRequest::Header* header);

}  // namespace gpupool::server
