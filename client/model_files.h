// Models on this machine: what they consist of, and their way to the server.
//
// Thread-safety: from any thread; one call uses one thread. Files are sent in
// chunks; the model file itself is mapped into memory to find the others.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/upload.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::client {

class Client;

// Digest and size of an ONNX file and of the external files that it names.
// NotFound names the file that is missing.
absl::StatusOr<v1::OnnxModel> DescribeOnnx(const std::string& path);

// Uploads the files of an ONNX model; what it is called on the server.
absl::StatusOr<v1::OnnxModel> UploadOnnx(Client& client,
                                         const std::string& path,
                                         const UploadProgress& progress);

// When `model` names a file, uploads it and fills in what the server wants
// instead. Relative paths are taken from the folder `base`.
absl::Status UploadModelFiles(Client& client, const std::string& base,
                              const UploadProgress& progress,
                              v1::ModelSpec& model);

// Makes a version: of an ONNX model whose files are uploaded already, or of a
// chain of layers with the safetensors file `weights`.
absl::StatusOr<v1::ModelVersion> UploadModel(
    Client& client, const v1::UploadModelRequest::Header& header,
    const std::string& weights, const UploadProgress& progress);

// Writes the version as a file, which appears whole or not at all. DataLoss
// when the bytes are not those that were announced.
absl::StatusOr<v1::ExportModelResponse::Header> ExportModel(
    Client& client, const v1::ExportModelRequest& request,
    const std::string& path, const UploadProgress& progress);

}  // namespace gpupool::client
