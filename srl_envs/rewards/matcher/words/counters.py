"""Counting words and units of scripts other than Latin: ``42个``, ``3 штуки``, ``5センチ``, ``42 μήλα``.

Scripts without spaces are read only by lists, because a following word may change the
number: ``42万`` is 420000, ``42以上`` is 42 or more. Scripts with spaces have nouns, less known hedges.
Thai, Lao, Khmer, Burmese and Tibetan run words together and have no list here: they stay unread.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Counted(NamedTuple):
    """Counting word and noun behind a number."""

    unit: str
    """Name of a unit for `units.read_unit`; "" where there is none."""
    noun: str
    """What is counted; "" for a bare counting word, which names nothing."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RUN_TOGETHER = "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
_SPACED = (
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u0386\u0388-\u03ff\u1f00-\u1fff"  # Greek
    "\u0531-\u0588\u10a0-\u10ff\u1200-\u137f\u1c90-\u1cbf"  # Armenian, Georgian, Ethiopic
    "\u0400-\u052f\u0590-\u05ff\u0600-\u065f\u066e-\u06ef\u0900-\u0963\u0966-\u0dff"
)
_TAIL = re.compile(
    rf"(?<=[0-9}})])\s{{0,4}}([{_RUN_TOGETHER}]{{1,12}}(?:\s[{_RUN_TOGETHER}]{{1,8}})?"
    rf"|[{_SPACED}]{{1,20}}\.?(?:\s[{_SPACED}]{{1,20}}\.?){{0,2}})\s?[。．.]?$"
)
_IN_MATHS = re.compile("[α-ω]+")
"""Greek without an accent: symbols, such as ``3Ω``."""
_MYRIADS = re.compile(r"(?<![0-9.])([0-9]+(?:\.[0-9]+)?)\s?([万萬만亿億억])(?![0-9])")
_POWERS = {"万": 4, "萬": 4, "만": 4, "亿": 8, "億": 8, "억": 8}

_UNITS = {
    name: unit
    for unit, names in {
        "mm": "毫米 公厘 ミリメートル ミリ 밀리미터 миллиметр миллиметра миллиметров мм",
        "cm": "厘米 公分 釐米 センチメートル センチ 센티미터 센티 сантиметр сантиметра сантиметров см",
        "m": "米 公尺 メートル 미터 метр метра метров м",
        "km": "千米 公里 キロメートル 킬로미터 километр километра километров км",
        "m^2": "平方米 平方公尺 平方メートル 제곱미터",
        "cm^2": "平方厘米 平方公分 平方センチメートル 제곱센티미터",
        "km^2": "平方千米 平方公里 平方キロメートル 제곱킬로미터",
        "m^3": "立方米 立方公尺 立方メートル 세제곱미터",
        "cm^3": "立方厘米 立方公分 立方センチメートル 세제곱센티미터",
        "mg": "毫克 ミリグラム 밀리그램",
        "g": "克 公克 グラム 그램 грамм грамма граммов г",
        "kg": "千克 公斤 キログラム 킬로그램 килограмм килограмма килограммов кг",
        "ton": "吨 噸 公吨 トン 톤 тонна тонны тонн",
        "mL": "毫升 ミリリットル 밀리리터",
        "L": "升 公升 リットル 리터 литр литра литров л",
        "s": "秒 秒钟 秒鐘 秒間 초 секунда секунды секунд",
        "min": "分 分钟 分鐘 分間 분 минута минуты минут мин",
        "h": "小时 小時 時間 时间 시간 час часа часов ч",
        "day": "天 日 日間 일 день дня дней दिन",
        "week": "周 週 週間 星期 주 주일 неделя недели недель",
        "month": "月 个月 個月 か月 ヶ月 カ月 개월 달 месяц месяца месяцев",
        "year": "年 年間 년 год года лет",
        "deg": "度 도 градус градуса градусов",
        "%": "パーセント 퍼센트 процент процента процентов प्रतिशत",
        "yuan": "元 块钱 塊錢 人民币 人民幣",
        "yen": "円 日元 日圓 엔",
        "dollar": "美元 美金 ドル 달러 доллар доллара долларов",
        "euro": "欧元 歐元 ユーロ 유로 евро",
        "rupee": "रुपये रुपए रुपया 卢比 ルピー 루피",
    }.items()
    for name in names.split()
}
_COUNTERS = _words(
    """
    个 個 箇 位 名 人 口 只 隻 条 條 张 張 本 匹 头 頭 台 臺 辆 輛 次 回 种 種 件 块 塊
    枚 颗 顆 粒 杯 瓶 袋 盒 箱 组 組 页 頁 岁 歲 歳 层 層 棵 朵 支 枝 根 把
    道 题 題 场 場 步 篇 封 株 册 冊 架 艘 班 排 列 行 串 套 份 群 间 間 家 所 座 点 點
    票 句 字 つ コ こ 個分 通り 通 とおり ページ ポイント 羽 着 足 軒 曲 問 개 명
    마리 권 장 대 번 살 가지 잔 병 송이 그루 자루
    켤레 채 점 쪽 회 조각 사람 шт штук штука штуки
    раз раза
    """
)
GROUPS = _words(
    """
    pair couple duo trio triplet twin quartet quintet quad brace ream quire
    paar paire par pare paio paia para pary çift
    对 對 双 雙 쌍 пара пары пар ζευγάρι ζευγάρια ζεύγος ζεύγη זוג זוגות जोड़ा जोड़े जोड़ी زوج أزواج
    """
)
"""Nouns, less a plural s, that say how many things one of them is."""
_HEDGES = re.compile(
    "[以超未不非无無没沒半或和与與及至到多少余餘约約満满近过過倍分错錯误誤假吗嗎]|^반$|이상|이하|초과|미만|정도|아니|또는"
    "|くらい|ぐらい|ほど|または|ない|から|まで|より|약간|보다|배"
)
_NO_NOUNS = _words(
    """
    или и не нет да но с ложь около примерно
    приблизительно больше меньше более менее
    минимум максимум от до из на тысяча тысячи
    тысяч тыс млн миллион миллиона миллионов млрд
    миллиард миллиарда миллиардов половина
    неверно возможно целых десятых сотых плюс
    минус умножить разделить या नहीं और
    लगभग अधिक कम से तक हज़ार
    हजार लाख करोड़ गलत शायद
    أو ليس لا و تقريبا أكثر
    أقل ألف مليون من إلى خطأ
    περίπου σχεδόν τουλάχιστον πάνω κάτω από λιγότερο λιγότερα περισσότερο περισσότερα όχι δεν μη
    ή και ίσως μάλλον λάθος ψευδές πολύ μέχρι ως έως μισό τοις χίλια χιλιάδες εκατό εκατοντάδες
    εκατομμύρια δισεκατομμύρια δωδεκάδα δωδεκάδες δεκάδες φορές επί συν πλην
    մոտ մոտավորապես ոչ կամ և առնվազն ավելի պակաս գրեթե հազար միլիոն միլիարդ հարյուր սխալ
    არა ან და დაახლოებით თითქმის მინიმუმ მეტი ნაკლები ათასი მილიონი ასი მცდარი
    ገደማ ወይም አይደለም እና ሺህ ሚሊዮን
    ربما או לא אלף מיליון
    יותר פחות בערך
    """
)


def with_powers(text: str) -> str:
    """``4.2万`` as ``4.2*10^{4}``."""
    return _MYRIADS.sub(lambda found: f"{found[1]}*10^{{{_POWERS[found[2]]}}}", text)


def split_counted(text: str) -> tuple[str, Counted] | None:
    """A number, still as text, and what follows it; None where that is not one of our counting words."""
    found = None if text.isascii() else _TAIL.search(text[-60:])
    if found is None:
        return None
    counted = _counted(found[1].strip(" ."))
    return counted and (text[: len(text) - len(found[0])], counted)


def _counted(words: str) -> Counted | None:
    if words in _UNITS:
        return Counted(_UNITS[words], "")
    if words in _COUNTERS:
        return Counted("", "")
    if words[0] in GROUPS and not _HEDGES.search(words[1:]):
        return Counted("", f"{words[0]} {words[1:]}".strip())
    if re.match(f"[{_SPACED}]", words):
        plain = words.lower().replace(".", "").split()
        if _NO_NOUNS & set(plain) or any(map(_IN_MATHS.fullmatch, plain)):
            return None
        return Counted("", " ".join(plain))
    for size in (2, 1):
        noun = words[size:].strip()
        if words[:size] in _COUNTERS and noun:
            return None if _HEDGES.search(noun) else Counted("", noun)
    return None
