// The parts of a request and a reply that are about load, as JSON.
#pragma once

#include "protocol/fields.h"
#include "protocol/messages.h"

namespace assay::protocol {

FieldReader::Json json_of(const LoadRequest& load);
LoadRequest read_load(FieldReader fields);
FieldReader::Json json_of(const LoadReport& report);
LoadReport read_load_report(FieldReader fields);
FieldReader::Json json_of(const GoneOn& gone_on);
GoneOn read_gone_on(FieldReader fields);

}  // namespace assay::protocol
