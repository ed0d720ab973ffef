//! Every PDU's layout, compared with bytes laid out by hand from the figures of RFC 7143 §11.

use wansan_iscsi::sequence::Sn;
use wansan_iscsi::wire::{
    AsyncEvent, AsyncMessage, BHS_BYTES, Bhs, DataIn, DataOut, Header, LoginRequest, LoginResponse,
    LoginStatus, LogoutReason, LogoutRequest, LogoutResponse, LogoutResult, Lun, NopIn, NopOut,
    ParseError, R2t, RESERVED_TAG, RESERVED_TASK_TAG, Reject, RejectReason, Residual, ResponseCode,
    ScsiCommand, ScsiResponse, ScsiStatus, Snack, SnackKind, Stage, TaskAttribute,
    TaskManagementFunction, TaskManagementRequest, TaskManagementResponse, TaskManagementResult,
    TextRequest, TextResponse,
};
use wansan_trace::TaskTag;

const LUN: Lun = Lun([0x40, 0x07, 0, 0, 0, 0, 0, 0]);
const ITT: TaskTag = TaskTag(0x1011_1213);
const TTT: u32 = 0x2021_2223;
const SN_24: Sn = Sn(0x3031_3233);
const SN_28: Sn = Sn(0x4041_4243);
const SN_32: Sn = Sn(0x5051_5253);
const WORD_36: u32 = 0x6061_6263;
const WORD_40: u32 = 0x7071_7273;
const WORD_44: u32 = 0x8081_8283;

/// A header's twelve words, in rows of 16 bytes.
type Rows = [[u32; 4]; 3];

fn bytes_of(rows: Rows) -> Bhs {
    let mut bhs = [0; BHS_BYTES];
    for (bytes, word) in bhs.chunks_exact_mut(4).zip(rows.as_flattened()) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    bhs
}

/// Checks both ways.
fn check(header: impl Into<Header>, rows: Rows) {
    let header = header.into();
    let expected = bytes_of(rows);
    let mut emitted: Bhs = [0xee; BHS_BYTES];
    header.emit(&mut emitted);
    assert_eq!(emitted, expected, "{header:?}");
    assert_eq!(Header::parse(&expected), Ok(header));
}

fn rejected(rows: Rows) -> ParseError {
    let error = Header::parse(&bytes_of(rows)).expect_err("a forbidden header");
    assert_eq!(error.reject_reason(), RejectReason::InvalidPduField);
    error
}

const LUN_WORDS: [u32; 2] = [0x4007_0000, 0];

#[test]
fn scsi_command() {
    let command = ScsiCommand {
        immediate: false,
        final_: true,
        read: true,
        write: false,
        attribute: TaskAttribute::Simple,
        lun: LUN,
        task_tag: ITT,
        expected_data_transfer_length: 0x1000,
        cmd_sn: SN_24,
        exp_stat_sn: SN_28,
        cdb: *b"\x28\0\0\0\0\x64\0\0\x08\0......",
    };
    let [lun0, lun1] = LUN_WORDS;
    let words = |first| {
        [
            [first, 0, lun0, lun1],
            [ITT.0, 0x1000, SN_24.0, SN_28.0],
            [0x2800_0000, 0x0064_0000, 0x0800_2e2e, 0x2e2e_2e2e],
        ]
    };
    check(command, words(0x01c1_0000));
    let write = ScsiCommand {
        immediate: true,
        final_: false,
        read: false,
        write: true,
        attribute: TaskAttribute::HeadOfQueue,
        ..command
    };
    check(write, words(0x4123_0000));
    assert_eq!(
        rejected(words(0x01c5_0000)).to_string(),
        "the peer sent ScsiCommand with ATTR 0x5, which RFC 7143 §11.3.1 does not allow"
    );
}

#[test]
fn scsi_response() {
    let response = ScsiResponse {
        response: ResponseCode::CommandCompleted,
        status: ScsiStatus::CheckCondition,
        task_tag: ITT,
        snack_tag: 0,
        stat_sn: SN_24,
        exp_cmd_sn: SN_28,
        max_cmd_sn: SN_32,
        exp_data_sn: WORD_36,
        residual: Residual::Underflow(WORD_44),
        bidirectional_read_residual: Residual::None,
    };
    let words = |first, read_residual, residual| {
        [
            [first, 0, 0, 0],
            [ITT.0, 0, SN_24.0, SN_28.0],
            [SN_32.0, WORD_36, read_residual, residual],
        ]
    };
    check(response, words(0x2182_0002, 0, WORD_44));
    let bidirectional = ScsiResponse {
        response: ResponseCode::TargetFailure,
        status: ScsiStatus::Good,
        residual: Residual::Overflow(WORD_44),
        bidirectional_read_residual: Residual::Underflow(WORD_40),
        ..response
    };
    check(bidirectional, words(0x218c_0100, WORD_40, WORD_44));
    rejected(words(0x2186_0000, 0, 1));
    rejected(words(0x2198_0000, 1, 0));
}

#[test]
fn task_management() {
    let request = TaskManagementRequest {
        immediate: true,
        function: TaskManagementFunction::AbortTask,
        lun: LUN,
        task_tag: ITT,
        referenced_task_tag: TaskTag(TTT),
        cmd_sn: SN_24,
        exp_stat_sn: SN_28,
        ref_cmd_sn: SN_32,
        exp_data_sn: WORD_36,
    };
    let [lun0, lun1] = LUN_WORDS;
    check(
        request,
        [
            [0x4281_0000, 0, lun0, lun1],
            [ITT.0, TTT, SN_24.0, SN_28.0],
            [SN_32.0, WORD_36, 0, 0],
        ],
    );
    let response = TaskManagementResponse {
        response: TaskManagementResult::Rejected,
        task_tag: ITT,
        stat_sn: SN_24,
        exp_cmd_sn: SN_28,
        max_cmd_sn: SN_32,
    };
    check(
        response,
        [
            [0x2280_ff00, 0, 0, 0],
            [ITT.0, 0, SN_24.0, SN_28.0],
            [SN_32.0, 0, 0, 0],
        ],
    );
}

#[test]
fn data_out() {
    let data_out = DataOut {
        final_: true,
        lun: LUN,
        task_tag: ITT,
        transfer_tag: TTT,
        exp_stat_sn: SN_28,
        data_sn: WORD_36,
        buffer_offset: WORD_40,
    };
    let [lun0, lun1] = LUN_WORDS;
    let words = |first| {
        [
            [first, 0, lun0, lun1],
            [ITT.0, TTT, 0, SN_28.0],
            [0, WORD_36, WORD_40, 0],
        ]
    };
    check(data_out, words(0x0580_0000));
    check(
        DataOut {
            final_: false,
            ..data_out
        },
        words(0x0500_0000),
    );
}

#[test]
fn data_in() {
    let last = DataIn {
        final_: true,
        acknowledge: true,
        status: Some(ScsiStatus::ConditionMet),
        residual: Residual::Overflow(WORD_44),
        lun: LUN,
        task_tag: ITT,
        transfer_tag: TTT,
        stat_sn: SN_24,
        exp_cmd_sn: SN_28,
        max_cmd_sn: SN_32,
        data_sn: WORD_36,
        buffer_offset: WORD_40,
    };
    let [lun0, lun1] = LUN_WORDS;
    let words = |first, stat_sn, residual| {
        [
            [first, 0, lun0, lun1],
            [ITT.0, TTT, stat_sn, SN_28.0],
            [SN_32.0, WORD_36, WORD_40, residual],
        ]
    };
    check(last, words(0x25c5_0004, SN_24.0, WORD_44));
    let not_last = DataIn {
        final_: false,
        acknowledge: false,
        status: None,
        residual: Residual::None,
        stat_sn: Sn(0),
        ..last
    };
    check(not_last, words(0x2500_0000, 0, 0));
    rejected(words(0x2501_0000, 0, 0));
    rejected(words(0x2587_0000, 0, 0));
}

#[test]
fn r2t() {
    let r2t = R2t {
        lun: LUN,
        task_tag: ITT,
        transfer_tag: TTT,
        stat_sn: SN_24,
        exp_cmd_sn: SN_28,
        max_cmd_sn: SN_32,
        r2t_sn: WORD_36,
        buffer_offset: WORD_40,
        desired_data_transfer_length: WORD_44,
    };
    let [lun0, lun1] = LUN_WORDS;
    let words = |transfer_tag, wanted| {
        [
            [0x3180_0000, 0, lun0, lun1],
            [ITT.0, transfer_tag, SN_24.0, SN_28.0],
            [SN_32.0, WORD_36, WORD_40, wanted],
        ]
    };
    check(r2t, words(TTT, WORD_44));
    rejected(words(RESERVED_TAG, WORD_44));
    // Forbidden by §11.8.4, and ignored by the session: LIO sends it.
    let for_nothing = R2t {
        desired_data_transfer_length: 0,
        ..r2t
    };
    check(for_nothing, words(TTT, 0));
}

#[test]
fn login() {
    let request = LoginRequest {
        continue_: false,
        csg: Stage::OperationalNegotiation,
        nsg: Some(Stage::FullFeaturePhase),
        version_max: 0,
        version_min: 0,
        isid: [0x80, 0x01, 0x02, 0x03, 0x04, 0x05],
        tsih: 0x0607,
        task_tag: ITT,
        cid: 0x0809,
        cmd_sn: SN_24,
        exp_stat_sn: SN_28,
    };
    let request_words = |first| {
        [
            [first, 0, 0x8001_0203, 0x0405_0607],
            [ITT.0, 0x0809_0000, SN_24.0, SN_28.0],
            [0, 0, 0, 0],
        ]
    };
    check(request, request_words(0x4387_0000));
    let more = LoginRequest {
        continue_: true,
        csg: Stage::SecurityNegotiation,
        nsg: None,
        version_max: 2,
        version_min: 1,
        ..request
    };
    check(more, request_words(0x4340_0201));
    rejected(request_words(0x4388_0000));
    rejected(request_words(0x4386_0000));

    let response = LoginResponse {
        continue_: false,
        csg: Stage::SecurityNegotiation,
        nsg: Some(Stage::OperationalNegotiation),
        version_max: 1,
        version_active: 0,
        isid: request.isid,
        tsih: 0x0607,
        task_tag: ITT,
        stat_sn: SN_24,
        exp_cmd_sn: SN_28,
        max_cmd_sn: SN_32,
        status: LoginStatus::NotFound,
    };
    let response_words = |first, status| {
        [
            [first, 0, 0x8001_0203, 0x0405_0607],
            [ITT.0, 0, SN_24.0, SN_28.0],
            [SN_32.0, status, 0, 0],
        ]
    };
    check(response, response_words(0x2381_0100, 0x0203_0000));
    assert_eq!((response.status.class(), response.status.detail()), (2, 3));
    rejected(response_words(0x2388_0100, 0));
}

#[test]
fn text() {
    let request = TextRequest {
        immediate: false,
        final_: true,
        continue_: false,
        lun: LUN,
        task_tag: ITT,
        transfer_tag: TTT,
        cmd_sn: SN_24,
        exp_stat_sn: SN_28,
    };
    let [lun0, lun1] = LUN_WORDS;
    let words = |first| {
        [
            [first, 0, lun0, lun1],
            [ITT.0, TTT, SN_24.0, SN_28.0],
            [0, 0, 0, 0],
        ]
    };
    check(request, words(0x0480_0000));
    let more = TextRequest {
        immediate: true,
        final_: false,
        continue_: true,
        ..request
    };
    check(more, words(0x4440_0000));

    let response = TextResponse {
        final_: true,
        continue_: false,
        lun: LUN,
        task_tag: ITT,
        transfer_tag: RESERVED_TAG,
        stat_sn: SN_24,
        exp_cmd_sn: SN_28,
        max_cmd_sn: SN_32,
    };
    check(
        response,
        [
            [0x2480_0000, 0, lun0, lun1],
            [ITT.0, RESERVED_TAG, SN_24.0, SN_28.0],
            [SN_32.0, 0, 0, 0],
        ],
    );
}

#[test]
fn nop() {
    let [lun0, lun1] = LUN_WORDS;
    let out = NopOut {
        immediate: true,
        lun: LUN,
        task_tag: RESERVED_TASK_TAG,
        transfer_tag: TTT,
        cmd_sn: SN_24,
        exp_stat_sn: SN_28,
    };
    check(
        out,
        [
            [0x4080_0000, 0, lun0, lun1],
            [RESERVED_TAG, TTT, SN_24.0, SN_28.0],
            [0, 0, 0, 0],
        ],
    );
    let in_ = NopIn {
        lun: LUN,
        task_tag: ITT,
        transfer_tag: RESERVED_TAG,
        stat_sn: SN_24,
        exp_cmd_sn: SN_28,
        max_cmd_sn: SN_32,
    };
    check(
        in_,
        [
            [0x2080_0000, 0, lun0, lun1],
            [ITT.0, RESERVED_TAG, SN_24.0, SN_28.0],
            [SN_32.0, 0, 0, 0],
        ],
    );
}

#[test]
fn logout() {
    let request = LogoutRequest {
        immediate: true,
        reason: LogoutReason::CloseConnection,
        task_tag: ITT,
        cid: 0x0809,
        cmd_sn: SN_24,
        exp_stat_sn: SN_28,
    };
    let words = |first| {
        [
            [first, 0, 0, 0],
            [ITT.0, 0x0809_0000, SN_24.0, SN_28.0],
            [0, 0, 0, 0],
        ]
    };
    check(request, words(0x4681_0000));
    rejected(words(0x4683_0000));

    let response = LogoutResponse {
        response: LogoutResult::CidNotFound,
        task_tag: ITT,
        stat_sn: SN_24,
        exp_cmd_sn: SN_28,
        max_cmd_sn: SN_32,
        time2wait_s: 2,
        time2retain_s: 20,
    };
    check(
        response,
        [
            [0x2680_0100, 0, 0, 0],
            [ITT.0, 0, SN_24.0, SN_28.0],
            [SN_32.0, 0, 0x0002_0014, 0],
        ],
    );
}

#[test]
fn snack() {
    let snack = Snack {
        kind: SnackKind::DataAck,
        lun: LUN,
        task_tag: RESERVED_TASK_TAG,
        transfer_tag: TTT,
        exp_stat_sn: SN_28,
        beg_run: WORD_40,
        run_length: WORD_44,
    };
    let [lun0, lun1] = LUN_WORDS;
    let words = |first| {
        [
            [first, 0, lun0, lun1],
            [RESERVED_TAG, TTT, 0, SN_28.0],
            [0, 0, WORD_40, WORD_44],
        ]
    };
    check(snack, words(0x1082_0000));
    rejected(words(0x1084_0000));
}

#[test]
fn reject_and_async_message() {
    let reject = Reject {
        reason: RejectReason::DataDigestError,
        stat_sn: SN_24,
        exp_cmd_sn: SN_28,
        max_cmd_sn: SN_32,
        data_sn: WORD_36,
    };
    check(
        reject,
        [
            [0x3f80_0200, 0, 0, 0],
            [RESERVED_TAG, 0, SN_24.0, SN_28.0],
            [SN_32.0, WORD_36, 0, 0],
        ],
    );
    let message = AsyncMessage {
        lun: LUN,
        stat_sn: SN_24,
        exp_cmd_sn: SN_28,
        max_cmd_sn: SN_32,
        event: AsyncEvent::DropConnection,
        vendor_code: 9,
        parameter1: 0x0a0b,
        parameter2: 0x0c0d,
        parameter3: 0x0e0f,
    };
    let [lun0, lun1] = LUN_WORDS;
    check(
        message,
        [
            [0x3280_0000, 0, lun0, lun1],
            [RESERVED_TAG, 0, SN_24.0, SN_28.0],
            [SN_32.0, 0x0209_0a0b, 0x0c0d_0e0f, 0],
        ],
    );
}
