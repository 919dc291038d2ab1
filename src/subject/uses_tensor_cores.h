// Whether outputs of a subject are judged by the wider budgets of tensor cores, without having run it.
#pragma once

#include <string>

#include "subject/subject.h"

namespace assay::subject {

// True where its code cannot be read: a budget that is too wide causes no false alarm.
bool may_use_tensor_cores(const Subject& subject, const std::string& arch);

}  // namespace assay::subject
