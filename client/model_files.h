// Finds the files of a model on this machine and sends them to the server.
//
// Thread-safety: from any thread. One call uses one thread. Files are sent in
// chunks. The model file itself is mapped into memory to find the external
// files.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/upload.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::client {

class Client;

// Returns digest and size of an ONNX file and of the external files that it
// names. NotFound names the missing file.
absl::StatusOr<v1::OnnxModel> DescribeOnnx(const std::string& path);

// Uploads the files of an ONNX model, and returns its description for the
// server. Retries and goes on as UploadDataset does (upload.h).
absl::StatusOr<v1::OnnxModel> UploadOnnx(Client& client,
                                         const std::string& path,
                                         const UploadProgress& progress);

// Uploads the files that `model` names, of ONNX and of weights, and replaces
// their paths by their descriptions.
// Relative paths are relative to the folder `base`.
absl::Status UploadModelFiles(Client& client, const std::string& base,
                              const UploadProgress& progress,
                              v1::ModelSpec& model);

// Makes a version from a model whose files, of ONNX and of weights, are already
// uploaded.
absl::StatusOr<v1::ModelVersion> UploadModel(
    Client& client, const v1::UploadModelRequest::Header& header);

// Writes the version to a file, which appears complete or not at all. DataLoss
// if the bytes differ from the announced ones.
absl::StatusOr<v1::ExportModelResponse::Header> ExportModel(
    Client& client, const v1::ExportModelRequest& request,
    const std::string& path, const UploadProgress& progress);

}  // namespace gpupool::client
