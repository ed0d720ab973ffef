//! Findings in the form of results.

use wansan_schema as schema;
use wansan_trace::Layer;

use super::{Finding, Prediction};

fn name(layer: Option<Layer>) -> Option<String> {
    layer.map(|layer| layer.name().to_owned())
}

impl From<Finding> for schema::Finding {
    fn from(finding: Finding) -> schema::Finding {
        let predicted = finding.predicted;
        schema::Finding {
            limit: finding.limit.name().to_owned(),
            layer: name(finding.layer),
            above: name(finding.above),
            wanted: finding.wanted,
            got: finding.got,
            waiting_share: finding.waiting_share,
            waiting_share_uncertain: finding.waiting_share_uncertain,
            cell: finding.cell,
            binds_in_cells: finding.binds_in_cells,
            evidence: finding.evidence,
            sentence: finding.sentence,
            advice: finding.advice,
            predicted: predicted.map(|each| each.into_iter().map(Into::into).collect()),
        }
    }
}

impl From<Prediction> for schema::Prediction {
    fn from(prediction: Prediction) -> schema::Prediction {
        schema::Prediction {
            cell: prediction.cell,
            parameters: prediction.parameters,
            in_flight: prediction.in_flight,
            iops: prediction.iops,
            predicted_iops: prediction.predicted_iops,
            gain: prediction.gain,
            bound: prediction.bound.name().to_owned(),
            source: prediction.source.name().to_owned(),
        }
    }
}

impl From<Finding> for schema::CellFinding {
    fn from(finding: Finding) -> schema::CellFinding {
        schema::CellFinding {
            limit: finding.limit.name().to_owned(),
            layer: name(finding.layer),
            above: name(finding.above),
            waiting_share: finding.waiting_share,
            waiting_share_uncertain: finding.waiting_share_uncertain,
            sentence: finding.sentence,
        }
    }
}
